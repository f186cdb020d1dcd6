"""How permits are shared: never more than the limit, and everybody gets a turn."""

from hypothesis import given
from hypothesis import strategies as st

from windlass.clock import SECOND
from windlass.core.limit.permit.share import (
    FRESH,
    Holding,
    PermitRequest,
    fair_share,
    granted,
    level,
)

NOW = 1_000 * SECOND


def claim(
    wanted: int, *, worker: int = 1, since: int = NOW, has_turn: bool = False
) -> PermitRequest:
    return PermitRequest(worker, 0, wanted, since, has_turn)


def waiting(worker: int, *, held: int = 0, wanted: int = 10, since: int = NOW - 1) -> Holding:
    return Holding(worker, held, wanted, since, NOW)


def content(worker: int, held: int) -> Holding:
    return Holding(worker, held, held, None, NOW)


def test_a_worker_that_is_alone_gets_what_it_wants_up_to_the_limit():
    assert fair_share(50, claim(8), [], now=NOW) == 8
    assert fair_share(50, claim(80), [], now=NOW) == 50


def test_what_others_hold_is_not_taken():
    assert fair_share(50, claim(80), [content(2, 45)], now=NOW) == 5


def test_a_worker_that_holds_everything_gives_half_to_another_that_waits():
    assert fair_share(50, claim(50), [waiting(2, wanted=50)], now=NOW) == 25


def test_a_worker_that_waits_for_little_gets_only_that():
    assert fair_share(50, claim(50), [waiting(2, wanted=3)], now=NOW) == 47


def test_the_permit_that_cannot_be_divided_goes_to_the_one_that_waits_longest():
    assert fair_share(1, claim(1), [waiting(2, since=NOW - 1)], now=NOW) == 0
    assert fair_share(1, claim(1), [waiting(2, since=NOW + 1)], now=NOW) == 1


def test_a_worker_keeps_its_turn_while_others_wait():
    assert fair_share(1, claim(1, has_turn=True), [waiting(2)], now=NOW) == 1


def test_a_worker_that_no_longer_says_that_it_waits_is_not_waited_for():
    silent = Holding(2, 0, 10, NOW - FRESH - 2, NOW - FRESH - 1)

    assert fair_share(1, claim(1), [silent], now=NOW) == 1


def test_what_runs_is_counted_although_the_limit_was_lowered():
    mine = PermitRequest(1, least=7, wanted=20, waits_since=NOW)

    assert granted(5, mine, [content(2, 4)], now=NOW) == 7


def test_a_level_is_what_all_can_have_who_want_more():
    assert level(50, [50, 50, 50, 50]) == 12
    assert level(50, [3, 100, 100]) == 23
    assert level(1, [1, 1]) == 0


holdings = st.builds(
    Holding,
    worker=st.integers(2, 6),
    held=st.integers(0, 10),
    wanted=st.integers(0, 60),
    waits_since=st.none() | st.integers(NOW - 5 * SECOND, NOW),
    seen_at=st.integers(NOW - 5 * SECOND, NOW),
)


@given(
    st.integers(0, 50),
    st.integers(0, 60),
    st.lists(holdings, max_size=5, unique_by=lambda each: each.worker),
    st.booleans(),
)
def test_no_share_is_more_than_others_leave(limit, wanted, others, has_turn):
    share = fair_share(limit, claim(wanted, has_turn=has_turn), others, now=NOW)

    assert 0 <= share <= max(0, limit - sum(each.held for each in others))
    assert share <= wanted
