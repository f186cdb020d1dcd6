"""The states of a task and the one table of moves."""

import itertools

import pytest

from windlass import Status
from windlass.value.status import FINAL, TRANSITIONS, may_become


def test_the_codes_are_those_of_the_tables():
    assert {status.name: status.value for status in Status} == {
        "WAITING": 0,
        "RUNNING": 1,
        "SUCCEEDED": 2,
        "FAILED": 3,
        "BLOCKED": 4,
        "EXTERNAL": 5,
        "CANCELLED": 6,
    }


@pytest.mark.parametrize("status", Status)
def test_in_text_a_status_is_its_lower_case_name(status):
    assert str(status) == f"{status}" == status.name.lower()
    assert f"{status:>10}" == status.name.lower().rjust(10)
    assert Status.named(str(status)) is status


def test_a_name_that_is_not_a_status_is_a_key_error():
    with pytest.raises(KeyError):
        Status.named("lost")


def test_what_has_ended_is_final():
    assert {status for status in Status if status.is_final} == {
        Status.SUCCEEDED,
        Status.FAILED,
        Status.CANCELLED,
    }


def test_every_arrow_has_a_reason():
    assert [arrow for arrow, reason in TRANSITIONS.items() if len(reason) < 10] == []


def test_a_move_is_allowed_exactly_if_it_is_in_the_table():
    for before, after in itertools.product(Status, Status):
        assert may_become(before, after) is ((before, after) in TRANSITIONS)


def test_from_success_there_is_only_the_way_back_to_waiting():
    ways_out = {after for before, after in TRANSITIONS if before is Status.SUCCEEDED}

    assert ways_out == {Status.WAITING}


def test_nothing_ends_without_having_run_but_by_being_cancelled_or_skipped():
    ends = {after for before, after in TRANSITIONS if before is Status.WAITING and after in FINAL}

    assert ends == {Status.CANCELLED, Status.SUCCEEDED}
