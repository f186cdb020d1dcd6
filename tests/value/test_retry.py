"""The retry policy: how often, how long between, for which errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import BadDeclaration, BadDuration, Retry
from windlass.clock import SECOND
from windlass.value.retry import LONGEST_BACKOFF, retry_policy

HALF = 0.5


class Flaky(ConnectionError):
    pass


def test_that_many_tries_after_the_first():
    policy = retry_policy("work", 3, "2s")

    assert [policy.allows(ValueError(), tries=tries) for tries in (1, 3, 4)] == [True, True, False]


def test_without_retries_there_is_one_try():
    assert not retry_policy("work", 0, "2s").allows(ValueError(), tries=1)


def test_the_back_off_doubles_up_to_an_hour():
    policy = retry_policy("work", 100, "2s")

    delays = [policy.delay(ValueError(), tries=tries, random=HALF) for tries in (1, 2, 3, 11, 99)]

    assert delays == [2 * SECOND, 4 * SECOND, 8 * SECOND, 2048 * SECOND, LONGEST_BACKOFF]


def test_a_first_back_off_of_more_than_an_hour_is_kept():
    policy = retry_policy("work", 100, "1d")

    assert policy.delay(ValueError(), tries=5, random=HALF) == 24 * 3600 * SECOND


@given(tries=st.integers(1, 2000), random=st.floats(0, 1))
def test_jitter_spreads_by_a_quarter_to_either_side(tries, random):
    policy = retry_policy("work", 10_000, "8s")
    exact = min(8 * SECOND * 2 ** min(tries - 1, 40), LONGEST_BACKOFF)

    delay = policy.delay(ValueError(), tries=tries, random=random)

    assert 0.75 * exact - 1 <= delay <= 1.25 * exact + 1


def test_jitter_uses_its_whole_width():
    policy = retry_policy("work", 1, "8s")

    assert policy.delay(ValueError(), tries=1, random=0.0) == 6 * SECOND
    assert policy.delay(ValueError(), tries=1, random=1.0) == 10 * SECOND


def test_no_back_off_at_all_is_allowed():
    assert retry_policy("work", 1, "0s").delay(ValueError(), tries=9, random=1.0) == 0


@pytest.mark.parametrize(
    ("error", "retries"),
    [(Flaky(), 5), (ConnectionError(), 2), (OSError(), 2), (ValueError(), 0)],
)
def test_the_most_specific_type_decides_how_often(error, retries):
    policy = retry_policy("work", {OSError: 2, Flaky: 5}, "1s")

    assert policy.allows(error, tries=retries) or retries == 0
    assert not policy.allows(error, tries=retries + 1)


def test_the_most_specific_type_decides_how_long():
    policy = retry_policy("work", 9, {Flaky: "1s", OSError: "10s"})

    assert policy.delay(Flaky(), tries=1, random=HALF) == SECOND
    assert policy.delay(ConnectionError(), tries=1, random=HALF) == 10 * SECOND
    assert policy.delay(ValueError(), tries=1, random=HALF) == 2 * SECOND


def test_a_number_counts_for_every_exception_but_not_for_exits():
    policy = retry_policy("work", 3, "1s")

    assert policy.allows(Retry(), tries=1)
    assert not policy.allows(SystemExit(), tries=1)
    assert not policy.allows(KeyboardInterrupt(), tries=1)


def test_a_handler_that_asks_for_another_try_is_given_some_unless_told_otherwise():
    silent, told = retry_policy("work", None, "1s"), retry_policy("work", 0, "1s")

    assert silent.allows(Retry(), tries=25)
    assert not silent.allows(Retry(), tries=26)
    assert not silent.allows(ValueError(), tries=1)
    assert not told.allows(Retry(), tries=1)


def test_beside_a_mapping_retry_counts_against_the_largest_number():
    policy = retry_policy("work", {OSError: 2, ValueError: 4}, "1s")

    assert policy.allows(Retry(), tries=4)
    assert not policy.allows(Retry(), tries=5)


def test_even_exits_are_retried_if_they_are_named():
    assert retry_policy("work", {SystemExit: 1}, "1s").allows(SystemExit(), tries=1)


@pytest.mark.parametrize("retries", [-1, 1.5, "3", True, {ValueError: -1}, {ValueError: "3"}])
def test_a_bad_number_of_retries_is_refused(retries):
    with pytest.raises(BadDeclaration, match="kind 'work': retries="):
        retry_policy("work", retries, "1s")


@pytest.mark.parametrize("mapping", [{"ValueError": 1}, {int: 1}, {ValueError(): 1}])
def test_what_is_not_an_exception_type_is_refused(mapping):
    with pytest.raises(BadDeclaration, match="is not an exception type"):
        retry_policy("work", mapping, "1s")
    with pytest.raises(BadDeclaration, match="is not an exception type"):
        retry_policy("work", 1, dict.fromkeys(mapping, "1s"))


def test_a_bad_back_off_names_the_kind():
    with pytest.raises(BadDuration, match="kind 'work': backoff: cannot read 'soon'"):
        retry_policy("work", 1, {ValueError: "soon"})
