"""The rules of named runs, without a database."""

import pytest

from windlass import BadStep
from windlass.control.model import control as rule
from windlass.control.model import step as steps
from windlass.control.model.control import Control, LoopProgress, Noted, RunStatus
from windlass.control.model.step import Step

HOUR = 3600 * 1_000_000


def running(**fields):
    facts = {"status": RunStatus.RUNNING, "batch": 7, "tries": 1, "start_time": 0, "who": "ada"}
    return Control("load", **facts | fields)


def test_the_states_keep_their_numbers():
    assert {str(status): int(status) for status in RunStatus} == {
        "failed": -1,
        "succeeded": 0,
        "running": 8,
        "ready": 9,
    }


@pytest.mark.parametrize(("expire_time", "code"), [(None, 8), (HOUR + 1, 8), (HOUR, 0), (1, 0)])
def test_a_run_is_held_until_its_expiry_and_no_longer(expire_time, code):
    move = rule.start(running(expire_time=expire_time), 8, HOUR, who="bob")

    assert move.reply.code == code
    assert (move.after is None) == (code == 8)


@pytest.mark.parametrize(("number", "batch"), [(3, 8), (7, 8), (9, 9)])
def test_a_later_start_has_a_larger_batch_whatever_number_it_was_given(number, batch):
    after = rule.start(running(expire_time=HOUR), number, 2 * HOUR, who="bob").after

    assert after.batch == batch


def test_who_takes_over_an_expired_run_ends_it_first():
    move = rule.start(running(expire_time=HOUR), 8, 2 * HOUR, who="bob")

    assert (move.ended.batch, move.ended.error, move.ended.end_time) == (7, "expired", HOUR)
    assert (move.after.batch, move.after.tries, move.after.who) == (8, 2, "bob")


def test_data_is_kept_by_a_rerun_and_forgotten_by_a_new_run():
    failed = Control("load", status=RunStatus.FAILED, data={"a": 1}, tries=1, first_time=3)
    succeeded = Control("load", status=RunStatus.SUCCEEDED, data={"a": 1}, tries=4, first_time=3)

    again = rule.start(failed, 8, HOUR, who="bob").after
    anew = rule.start(succeeded, 8, HOUR, who="bob").after
    given = rule.start(failed, 8, HOUR, who="bob", data=[]).after

    assert (again.data, again.tries, again.first_time) == ({"a": 1}, 2, 3)
    assert (anew.data, anew.tries, anew.first_time) == (None, 1, HOUR)
    assert given.data == []


@pytest.mark.parametrize(
    ("found", "batch", "why"),
    [
        (None, None, "not started"),
        (Control("load"), None, "not started"),
        (Control("load", status=RunStatus.SUCCEEDED, batch=7), 7, "not running"),
        (Control("load", status=RunStatus.FAILED, batch=7), None, "not running"),
        (running(), 6, "no longer yours"),
    ],
)
def test_a_refusal_says_why_and_changes_nothing(found, batch, why):
    moves = [
        rule.step(found, batch, HOUR, 1),
        rule.complete(found, batch, HOUR, 1, result=None),
        rule.finish(found, batch, HOUR, Noted()),
        rule.fail(found, batch, HOUR, Noted(), error="x"),
        rule.note(found, batch, HOUR, Noted({})),
    ]

    assert {move.reply.code for move in moves} == {451}
    assert all(why in move.reply.msg for move in moves)
    assert [move for move in moves if move.after or move.ended] == []


def test_notes_merge_objects_and_replace_the_rest():
    found = running(data={"a": 1, "b": 1})

    merged = rule.note(found, 7, HOUR, Noted({"b": 2}, LoopProgress(1, None))).after
    replaced = rule.note(found, 7, HOUR, Noted([1])).after

    assert (merged.data, merged.progress) == ({"a": 1, "b": 2}, LoopProgress(1, None))
    assert replaced.data == [1]


def test_what_comes_back_as_json_is_what_went_in():
    taken = (
        Step(1, 5, ended_at=9, asked=2),
        Step("1", 9, ended_at=10, result=None),
        Step("ä", 10, called=True),
    )

    assert steps.decode_steps(steps.encode_steps(taken, what="control")) == taken


def test_steps_with_results_beyond_all_measure_are_refused():
    huge = tuple(Step(number, 1, result="x" * 60_000) for number in range(1, 80))

    with pytest.raises(BadStep, match="take fewer steps"):
        steps.encode_steps(huge, what="control 'load'")


def test_the_function_of_a_step_says_when_it_is_done():
    outer = steps.begin((), "outer", tries=1, now=1, called=True, what="")
    inner = steps.begin(outer, "inner", tries=1, now=2, called=False, what="")
    third = steps.begin(inner, "third", tries=1, now=3, called=False, what="")

    assert [(step.step, step.ended_at) for step in third] == [
        ("outer", None),
        ("inner", 3),
        ("third", None),
    ]


def test_a_step_that_failed_and_was_passed_over_may_be_tried_again_by_a_rerun():
    taken = (Step(1, 1, called=True), Step(2, 2, ended_at=3))

    again = steps.begin(taken, 1, tries=2, now=9, called=True, what="")

    assert [(step.step, step.is_done) for step in again] == [(1, False), (2, True)]
