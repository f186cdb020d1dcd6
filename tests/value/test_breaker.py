"""Circuit breakers: their terms, and the state machine that all workers share."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from windlass.errors import BadBreaker
from windlass.value.breaker import Breaker, BreakerState, BreakerTerms, parse_breaker

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
TERMS = BreakerTerms(errors=3, pause=MINUTE, longest=5 * MINUTE)
NOW = 1_000 * HOUR


def opened(terms=TERMS, *, at=NOW):
    return Breaker().count(terms, [False] * terms.errors, at)


def probing(worker=7, *, at=NOW + MINUTE):
    breaker = opened().take_probe(worker, at)
    assert breaker is not None
    return breaker


@pytest.mark.parametrize(
    ("text", "errors", "pause"),
    [
        ("20 in a row, 5m", 20, 5 * MINUTE),
        ("  20  in a   row ,5 m ", 20, 5 * MINUTE),
        ("20 In A Row, 5m", 20, 5 * MINUTE),
        ("1 in a row, 250ms", 1, 250_000),
        ("1000000 in a row, 1h30m", 1_000_000, 90 * MINUTE),
    ],
)
def test_terms_are_a_number_in_a_row_and_a_pause(text, errors, pause):
    terms = parse_breaker(text)

    assert (terms.errors, terms.pause) == (errors, pause)


@pytest.mark.parametrize(
    ("text", "longest"),
    [
        ("20 in a row, 1s", 32 * SECOND),
        ("20 in a row, 5m", HOUR),
        ("20 in a row, 2h", 2 * HOUR),
        ("20 in a row, 5m, up to 20m", 20 * MINUTE),
        ("20 in a row , 5m ,  UP  TO  1h ", HOUR),
        ("20 in a row, 5m, up to 5m", 5 * MINUTE),
        ("20 in a row, 5m, up to 1d", 24 * HOUR),
    ],
)
def test_the_longest_pause_is_given_or_32_pauses_but_not_beyond_an_hour(text, longest):
    assert parse_breaker(text).longest == longest


@pytest.mark.parametrize(
    "text",
    [
        *["", " ", ",", "20", "20 in a row", "20 in a row,", "in a row, 5m", "5m, 20 in a row"],
        *["twenty in a row, 5m", "-1 in a row, 5m", "1.5 in a row, 5m", "9" * 5_000 + " in a row"],
        *["20 in a row, 5m, 1h", "20 in a row, 5m, max 1h", "20 in a row, 5m, up to"],
        *[
            "20 in a row, 5m, up to 1h, 2h",
            "20 in a row, 5m,",
            "\N{ARABIC-INDIC DIGIT TWO} in a row, 5m",
        ],
        *[20, None, 5.0, ["20 in a row, 5m"]],
    ],
)
def test_what_is_not_a_breaker_is_refused_with_examples(text):
    with pytest.raises(BadBreaker) as raised:
        parse_breaker(text, what="kind 'offer': breaker")

    assert str(raised.value).startswith(f"kind 'offer': breaker: cannot read {text!r}; ")
    assert '"20 in a row, 5m"' in str(raised.value)


@pytest.mark.parametrize(
    ("text", "problem", "cure"),
    [
        ("0 in a row, 5m", "'0 in a row' is out of bounds", "a number from 1 to 1000000"),
        ("1000001 in a row, 5m", "'1000001 in a row' is out of", "a number from 1 to 1000000"),
        ("20 in a row, soon", "pause: cannot read 'soon'", '"1h30m" or "10d"'),
        ("20 in a row, 0s", "pause: '0s' is too short", "a positive duration"),
        ("20 in a row, 5m, up to 0s", "longest pause: '0s' is too short", "a positive duration"),
        ("20 in a row, 5m, up to 1m", "'up to 1m' is shorter than the pause '5m'", "at least that"),
    ],
)
def test_terms_out_of_bounds_say_what_is_wrong_and_what_to_do(text, problem, cure):
    with pytest.raises(BadBreaker) as raised:
        parse_breaker(text, what="kind 'offer': breaker")

    assert str(raised.value).startswith(f"kind 'offer': breaker: {problem}")
    assert str(raised.value).endswith(cure)


def test_a_state_in_text_is_its_lower_case_name():
    assert [str(state) for state in BreakerState] == ["closed", "open", "probing"]
    assert f"{BreakerState.PROBING:>8}" == " probing"


def test_errors_in_a_row_add_up_over_calls_until_one_success():
    breaker = Breaker().count(TERMS, [False], NOW).count(TERMS, [False], NOW + 1)

    assert breaker == Breaker(errors_in_a_row=2)
    assert breaker.count(TERMS, [True, False], NOW + 2) == Breaker(errors_in_a_row=1)
    assert not breaker.is_open


def test_enough_errors_in_a_row_open_it_for_a_pause():
    breaker = Breaker(errors_in_a_row=2).count(TERMS, [False], NOW)

    assert breaker == Breaker(
        state=BreakerState.OPEN,
        errors_in_a_row=3,
        opened_at=NOW,
        probe_at=NOW + MINUTE,
        pause=MINUTE,
    )
    assert breaker.is_open


def test_a_success_after_enough_errors_comes_too_late():
    breaker = Breaker().count(TERMS, [True, False, False, False, True], NOW)

    assert breaker == opened()


def test_terms_that_have_become_stricter_open_it_with_the_next_error():
    strict = BreakerTerms(errors=5, pause=MINUTE, longest=MINUTE)

    breaker = Breaker(errors_in_a_row=15)

    assert not breaker.count(strict, [], NOW).is_open
    assert not breaker.count(strict, [True], NOW).is_open
    assert breaker.count(strict, [False], NOW).is_open


@pytest.mark.parametrize("outcomes", [[], [True], [False], [True, False, False, False, False]])
def test_runs_that_began_before_it_opened_change_nothing(outcomes):
    assert opened().count(TERMS, outcomes, NOW + 1) == opened()
    assert probing().count(TERMS, outcomes, NOW + 1) == probing()


def test_no_probe_is_taken_while_it_is_closed():
    assert Breaker().take_probe(7, NOW) is None


def test_a_probe_is_taken_when_the_pause_is_over_and_not_before():
    breaker = opened()

    assert breaker.take_probe(7, NOW + MINUTE - 1) is None
    assert breaker.take_probe(7, NOW + MINUTE) == Breaker(
        state=BreakerState.PROBING,
        errors_in_a_row=3,
        opened_at=NOW,
        probe_at=NOW + 2 * MINUTE,
        pause=MINUTE,
        probe_worker=7,
    )


def test_a_probe_has_at_least_a_minute_to_answer_however_short_the_pause():
    hasty = BreakerTerms(errors=3, pause=SECOND, longest=SECOND)
    taken = opened(hasty).take_probe(7, NOW + SECOND)

    assert taken is not None
    assert taken.probe_at == NOW + SECOND + MINUTE
    assert taken.take_probe(8, NOW + SECOND + MINUTE - 1) is None


def test_a_probe_has_as_long_to_answer_as_the_pause_if_that_is_longer():
    patient = BreakerTerms(errors=3, pause=HOUR, longest=HOUR)
    taken = opened(patient).take_probe(7, NOW + HOUR)

    assert taken is not None
    assert taken.probe_at == NOW + 2 * HOUR


def test_a_probe_is_taken_over_when_its_worker_did_not_answer_for_a_pause():
    breaker = probing(7, at=NOW + MINUTE)

    assert breaker.take_probe(8, NOW + 2 * MINUTE - 1) is None
    taken = breaker.take_probe(8, NOW + 2 * MINUTE)
    assert taken is not None
    assert (taken.state, taken.probe_worker) == (BreakerState.PROBING, 8)
    assert taken.probe_at == NOW + 3 * MINUTE


def test_a_probe_that_succeeds_closes_it_and_clears_everything():
    assert probing(7).answer(TERMS, 7, ok=True, now=NOW + 90 * SECOND) == Breaker()


def test_a_probe_that_fails_doubles_the_pause_up_to_the_longest():
    breaker, now, pauses = opened(), NOW, []

    for _ in range(4):
        assert breaker.probe_at is not None
        now = breaker.probe_at
        taken = breaker.take_probe(7, now)
        assert taken is not None
        breaker = taken.answer(TERMS, 7, ok=False, now=now)
        pauses.append((breaker.probe_at or 0) - now)

    assert pauses == [2 * MINUTE, 4 * MINUTE, 5 * MINUTE, 5 * MINUTE]
    assert breaker == Breaker(
        state=BreakerState.OPEN,
        errors_in_a_row=7,
        opened_at=NOW,
        probe_at=now + 5 * MINUTE,
        pause=5 * MINUTE,
    )


def test_it_begins_with_the_first_pause_again_after_it_was_closed():
    failed = probing(7).answer(TERMS, 7, ok=False, now=NOW + MINUTE)

    again = failed.closed().count(TERMS, [False] * 3, NOW + HOUR)

    assert again == opened(at=NOW + HOUR)


def test_a_worker_that_found_nothing_to_run_lets_the_next_one_probe_at_once():
    breaker = probing(7).give_back_probe(7, NOW + MINUTE + 5)

    assert breaker == Breaker(
        state=BreakerState.OPEN,
        errors_in_a_row=3,
        opened_at=NOW,
        probe_at=NOW + MINUTE + 5,
        pause=MINUTE,
    )
    assert breaker.take_probe(8, NOW + MINUTE + 5) is not None


@pytest.mark.parametrize("breaker", [Breaker(), opened(), probing(8)], ids=lambda it: str(it.state))
def test_who_does_not_have_the_probe_any_more_cannot_fail_it_or_give_it_back(breaker):
    assert breaker.answer(TERMS, 7, ok=False, now=NOW + HOUR) == breaker
    assert breaker.give_back_probe(7, NOW + HOUR) == breaker


@pytest.mark.parametrize("breaker", [opened(), probing(8)], ids=lambda it: str(it.state))
def test_a_probe_that_was_taken_over_and_succeeds_closes_it_all_the_same(breaker):
    assert breaker.answer(TERMS, 7, ok=True, now=NOW + HOUR) == Breaker()


def test_a_probe_that_succeeds_late_forgets_no_errors_that_came_after_it_was_closed():
    closed = Breaker(errors_in_a_row=2)

    assert closed.answer(TERMS, 7, ok=True, now=NOW + HOUR) == closed


def test_a_late_answer_still_counts_if_nobody_took_the_probe_over():
    assert probing(7).answer(TERMS, 7, ok=True, now=NOW + HOUR) == Breaker()


@pytest.mark.parametrize("breaker", [Breaker(), Breaker(errors_in_a_row=2), opened(), probing()])
def test_an_operator_closes_it_in_any_state(breaker):
    assert breaker.closed() == Breaker()


@given(st.lists(st.booleans()), st.integers(1, 5), st.data())
def test_how_the_outcomes_are_cut_into_calls_does_not_matter(outcomes, errors, data):
    terms = BreakerTerms(errors, MINUTE, MINUTE)
    cut = data.draw(st.integers(0, len(outcomes)))

    at_once = Breaker().count(terms, outcomes, NOW)
    in_two = Breaker().count(terms, outcomes[:cut], NOW).count(terms, outcomes[cut:], NOW)

    assert in_two == at_once
    enough = "x" * errors in "".join(" " if ok else "x" for ok in outcomes)
    assert at_once.is_open == enough


class Workers(RuleBasedStateMachine):
    """Four workers and an operator share a breaker; the model is who was last given the probe."""

    def __init__(self):
        super().__init__()
        self.breaker = Breaker()
        self.now = NOW
        self.prober = None
        self.free_at = 0

    @rule(by=st.sampled_from([1, SECOND, MINUTE, 2 * MINUTE, HOUR]))
    def time_passes(self, by):
        self.now += by

    @rule(outcomes=st.lists(st.sampled_from([True, False, False]), max_size=6))
    def runs_end(self, outcomes):
        before = self.breaker
        self.breaker = before.count(TERMS, outcomes, self.now)
        assert not before.is_open or self.breaker == before

    @rule(worker=st.integers(1, 4))
    def probe_is_taken(self, worker):
        taken = self.breaker.take_probe(worker, self.now)
        if taken is None:
            assert not self.breaker.is_open or self.now < (self.breaker.probe_at or 0)
            return
        assert self.prober is None or self.now >= self.free_at
        self.breaker, self.prober = taken, worker
        self.free_at = self.now + max(taken.pause or 0, MINUTE)

    @rule(worker=st.integers(1, 4))
    def probe_is_given_back(self, worker):
        before, self.breaker = self.breaker, self.breaker.give_back_probe(worker, self.now)
        self.expect_change(before, worker)

    @rule(worker=st.integers(1, 4))
    def probe_fails(self, worker):
        before = self.breaker
        self.breaker = before.answer(TERMS, worker, ok=False, now=self.now)
        self.expect_change(before, worker)
        assert self.breaker.is_open == before.is_open

    @rule(worker=st.integers(1, 4))
    def probe_succeeds(self, worker):
        before = self.breaker
        self.breaker = before.answer(TERMS, worker, ok=True, now=self.now)
        assert self.breaker == (Breaker() if before.is_open else before)
        self.prober = None

    @rule()
    def operator_resumes(self):
        self.breaker, self.prober = self.breaker.closed(), None

    def expect_change(self, before, worker):
        """Only the one prober gives back or fails the probe, and with that stops being it."""
        assert (before != self.breaker) == (worker == self.prober)
        if worker == self.prober:
            self.prober = None

    @invariant()
    def exactly_the_prober_is_in_the_row(self):
        assert self.breaker.probe_worker == self.prober
        assert (self.breaker.state == BreakerState.PROBING) == (self.prober is not None)

    @invariant()
    def closed_knows_no_times_and_too_few_errors(self):
        if not self.breaker.is_open:
            assert self.breaker == Breaker(errors_in_a_row=self.breaker.errors_in_a_row)
            assert 0 <= self.breaker.errors_in_a_row < TERMS.errors

    @invariant()
    def open_has_a_pause_within_bounds_and_a_probe_to_come(self):
        if self.breaker.is_open:
            assert TERMS.pause <= (self.breaker.pause or 0) <= TERMS.longest
            assert (self.breaker.probe_at or 0) <= self.now + max(self.breaker.pause or 0, MINUTE)
            assert self.breaker.opened_at is not None
            assert self.breaker.opened_at <= self.now
            assert self.breaker.errors_in_a_row >= TERMS.errors


TestWorkers = Workers.TestCase
TestWorkers.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("back", [HOUR, 24 * HOUR])
@pytest.mark.parametrize("breaker", [opened(), probing()])
def test_after_a_step_back_nobody_waits_longer_than_the_pause(breaker, back):
    now = NOW - back

    again = breaker.take_probe(8, now)

    assert again is not None
    assert again.probe_at == now + MINUTE


def test_after_a_small_step_back_the_pause_is_kept():
    assert opened().take_probe(8, NOW + 30 * SECOND) is None
    assert opened().take_probe(8, NOW) is None


def test_a_worker_that_read_the_time_a_moment_earlier_does_not_probe_too():
    taken = probing(7, at=NOW + MINUTE)

    assert taken.take_probe(8, NOW + MINUTE - 1) is None
    assert taken.take_probe(8, NOW + MINUTE - SECOND) is None
