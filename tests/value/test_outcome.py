"""How a run ended, and what that makes of its row."""

import pytest

from windlass import Cancel, Retry, Snooze
from windlass.clock import SECOND
from windlass.value.cron import Schedule, read_turn
from windlass.value.outcome import (
    KEEP_RESULT,
    LONGEST_REMARK,
    LONGEST_TRACEBACK,
    Cancelled,
    Failed,
    Retried,
    Snoozed,
    Succeeded,
    describe,
    judge,
    settle,
    storable,
)
from windlass.value.retry import retry_policy
from windlass.value.status import Status, may_become
from windlass.value.task import KEEP_FAILED, Claimed, Terms

HOUR = 3600 * SECOND
NOW = 1_000 * HOUR


def claimed(*, key=None, attempt=1, lost=0, due_at=NOW, payload="{}"):
    return Claimed(
        id=7,
        kind="work",
        task_key=key,
        priority=0,
        due_at=due_at,
        payload=payload,
        attempt=attempt,
        lost=lost,
        started_at=NOW,
        bucket=0,
        batch=99,
        worker=3,
    )


def terms(*, retries=2, backoff="8s", **more):
    return Terms(retry=retry_policy("work", retries, backoff), **more)


def judged(error, *, tries=1, **options):
    return judge(error, terms(**options), tries=tries, random=0.5)


def test_an_error_with_retries_left_is_retried_after_the_back_off():
    outcome = judged(ValueError("no"), tries=2)

    assert isinstance(outcome, Retried)
    assert (outcome.delay, outcome.error) == (16 * SECOND, "ValueError: no")
    assert "ValueError: no" in outcome.trace


def test_an_error_without_retries_left_has_failed():
    outcome = judged(ValueError("no"), tries=3)

    assert isinstance(outcome, Failed)
    assert outcome.error == "ValueError: no"


def test_retry_names_its_own_delay_or_takes_the_back_off():
    assert judged(Retry("busy", after="10s")).delay == 10 * SECOND
    assert judged(Retry(after="0s")).delay == 0
    assert judged(Retry()).delay == 8 * SECOND
    assert judged(Retry("busy")).error == "Retry: busy"


def test_retry_with_no_retries_left_has_failed():
    assert isinstance(judged(Retry(after="1s"), retries=0), Failed)


def test_cancel_and_snooze_need_no_retries():
    assert judged(Cancel("why"), retries=0) == Cancelled("why")
    assert judged(Snooze("1h"), retries=0, tries=50) == Snoozed(HOUR)
    assert judged(Snooze("0s")) == Snoozed(0)


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_exits_are_failures_without_a_retry(error):
    assert isinstance(judged(error, retries=5), Failed)


def settled(task, outcome, *, turns=False, **options):
    return settle(task, outcome, terms(**options), now=NOW, turns=turns)


def test_a_plain_success_is_deleted():
    assert settled(claimed(), Succeeded()) is None


@pytest.mark.parametrize(
    ("task", "result", "keep", "kept"),
    [
        (claimed(key="k"), None, None, KEEP_RESULT),
        (claimed(), '"r"', None, KEEP_RESULT),
        (claimed(), None, HOUR, HOUR),
        (claimed(key="k"), '"r"', HOUR, HOUR),
    ],
)
def test_a_success_that_somebody_may_ask_for_is_kept(task, result, keep, kept):
    change = settled(task, Succeeded(result), keep=keep)

    assert (change.status, change.due_at, change.result) == (Status.SUCCEEDED, None, result)
    assert (change.finished_at, change.prune_at) == (NOW, NOW + kept)
    assert (change.id, change.fence, change.remark) == (7, 99, None)


def test_keep_nothing_deletes_even_keys_and_results():
    assert settled(claimed(key="k"), Succeeded('"r"'), keep=0) is None


@pytest.mark.parametrize(
    ("keep", "keep_failed", "kept"),
    [
        (None, KEEP_FAILED, KEEP_FAILED),
        (None, HOUR, HOUR),
        (0, HOUR, HOUR),
        (9 * HOUR, HOUR, HOUR),
    ],
)
def test_a_failure_is_kept_as_long_as_keep_failed_says(keep, keep_failed, kept):
    change = settled(claimed(), Failed("e", "t"), keep=keep, keep_failed=keep_failed)

    assert (change.status, change.remark, change.due_at) == (Status.FAILED, "e", None)
    assert change.prune_at == NOW + kept
    assert change.result is None


def test_a_retried_row_waits_and_keeps_its_attempts():
    change = settled(claimed(attempt=3, lost=1), Retried(5, "e", "t"))

    assert (change.status, change.due_at, change.remark) == (Status.WAITING, NOW + 5, "e")
    assert (change.attempt, change.lost, change.prune_at) == (3, 1, None)


def test_a_snoozed_row_waits_as_if_it_had_not_begun():
    change = settled(claimed(attempt=3, lost=1), Snoozed(5))

    assert (change.status, change.due_at, change.remark) == (Status.WAITING, NOW + 5, None)
    assert (change.attempt, change.lost, change.finished_at) == (1, 0, None)


def test_a_cancelled_row_ends_with_its_reason():
    change = settled(claimed(), Cancelled("why"), keep_failed=HOUR)

    assert (change.status, change.remark, change.due_at) == (Status.CANCELLED, "why", None)
    assert change.prune_at == NOW + HOUR


@pytest.mark.parametrize(
    ("outcome", "last"),
    [
        (Succeeded('"r"'), Status.SUCCEEDED),
        (Failed("e", "t"), Status.FAILED),
        (Cancelled("why"), Status.CANCELLED),
    ],
)
def test_a_standing_row_waits_for_its_next_turn_however_it_ended(outcome, last):
    schedule = Schedule("0 * * * *")

    change = settled(claimed(attempt=4, lost=2), outcome, schedule=schedule, turns=True)

    assert (change.status, change.due_at) == (Status.WAITING, NOW + HOUR)
    assert (change.attempt, change.lost, change.prune_at) == (0, 0, None)
    assert (change.last_status, change.finished_at) == (last, NOW)


def test_the_turn_of_a_standing_row_is_the_one_it_was_due_for_at_first():
    schedule = Schedule("0 * * * *", catchup=True)
    turn = NOW - 5 * HOUR
    late = claimed(due_at=NOW - 60, payload=schedule.as_payload(turn=turn))

    change = settled(late, Succeeded(), schedule=schedule, turns=True)

    assert change.due_at == turn + HOUR
    expected = schedule.following(late.payload, ran=turn, now=NOW)
    assert (change.due_at, change.payload) == expected
    assert read_turn(change.payload) == turn + HOUR
    assert schedule.is_in(change.payload)


def test_a_row_of_a_cron_that_was_enqueued_by_hand_ends():
    change = settled(claimed(), Succeeded(), schedule=Schedule("0 * * * *"), turns=False)

    assert change is None


@pytest.mark.parametrize(
    "outcome",
    [Succeeded("1"), Failed("e", "t"), Retried(1, "e", "t"), Snoozed(1), Cancelled("why")],
)
@pytest.mark.parametrize("turns", [False, True])
def test_every_outcome_is_a_move_of_the_table(outcome, turns):
    change = settled(claimed(), outcome, schedule=Schedule("0 * * * *"), turns=turns)

    assert may_become(Status.RUNNING, Status(change.status))


def test_an_error_is_told_in_one_bounded_line_and_a_bounded_traceback():
    def deep(left):
        if left:
            deep(left - 1)
        raise ValueError("x" * 5_000)

    with pytest.raises(ValueError, match="x") as raised:
        deep(300)
    text, trace = describe(raised.value)

    assert text.startswith("ValueError: xxx")
    assert len(text) <= LONGEST_REMARK
    assert len(trace) <= LONGEST_TRACEBACK


def test_an_error_without_words_is_its_name():
    assert describe(ValueError())[0] == "ValueError"


def test_the_cause_of_an_error_is_in_its_traceback():
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as outer:
        _, trace = describe(outer)

    assert "KeyError: 'inner'" in trace
    assert "direct cause" in trace


@pytest.mark.parametrize(
    ("text", "stored"), [("plain 🚢", "plain 🚢"), ("a\x00b", "a\\x00b"), ("\ud800", "\\ud800")]
)
def test_text_is_made_storable_without_losing_what_it_said(text, stored):
    assert storable(text) == stored
