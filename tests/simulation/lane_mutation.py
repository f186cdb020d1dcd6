"""Guards of lanes taken away one at a time, to see that the simulation notices."""

from typing import Any

import pytest
from sqlalchemy import text

from tests.simulation.mutation import (
    Mutation,
    what_has_not_begun_is_kept_when_its_bucket_goes,
    what_runs_is_offered,
    what_still_runs_is_not_marked_when_its_bucket_goes,
)
from tests.simulation.stage import Stage
from windlass.core.fetch import lane
from windlass.core.fetch.lane import LaneRow
from windlass.core.fetch.lane_reader import Search
from windlass.core.finish import finish
from windlass.core.ring import store as ring_store
from windlass.core.run import chain
from windlass.value import bucket as lane_value


def what_others_run_does_not_count(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    reword(patch, stage, "r.status = 1", "r.status = 9")


def the_newest_goes_first(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    order = "h.lane_place, h.due_at"
    reword(patch, stage, f"{order}, h.id", f"{order} desc, h.id desc")
    patch.setattr(lane, "ORDER", lambda row: (row[13], -row[4], -row[0]))


def a_row_that_holds_its_lane_is_not_first(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    reword(patch, stage, "h.lane_place between lanes.held and", "h.lane_place =")


def reword(patch: pytest.MonkeyPatch, stage: Stage, said: str, instead: str) -> None:
    """Change the statement that finds the first rows of each lane."""
    dialect: Any = stage.app.database.dialect
    assert said in dialect._chains.text
    patch.setattr(dialect, "_chains", text(dialect._chains.text.replace(said, instead)))


def a_failing_row_does_not_hold_its_lane(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    patch.setattr(finish, "_comes_again", lambda _run: False)


def what_is_handed_back_loses_its_place(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    patch.setattr(ring_store.lane, "holding", lambda _connection: {})


def rows_of_lanes_are_read_like_others(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    def spread(number: int) -> int:
        return lane_value.owned_with(number >> (lane_value.BITS - 8))

    for module in ("windlass.core.task.enqueue", "tests.simulation.lane"):
        patch.setattr(f"{module}.bucket_of_lane", spread)


def a_chain_goes_on_after_any_outcome(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    patch.setattr(chain, "Succeeded", object)


def a_lane_is_free_when_the_first_of_its_chain_is(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    took = Search.took

    def took_one(search: Search, first: LaneRow, *behind: Any, are_all: bool) -> None:
        took(search, first, *behind, are_all=are_all)
        search.lanes.held[first.lane] = [first.id]

    patch.setattr(Search, "took", took_one)


# Those that are found within some walks, and those that take many. Walks rarely meet the moments
# that the other guards of chains are for: that a chain is fresh for a while only, ends when its
# bucket or its kind goes, has due rows only, and is recorded in order. Each of them has a test in
# `tests/core/run/test_chain.py`.
SOON: list[Mutation] = [
    what_others_run_does_not_count,
    the_newest_goes_first,
    a_row_that_holds_its_lane_is_not_first,
    a_failing_row_does_not_hold_its_lane,
    rows_of_lanes_are_read_like_others,
    what_runs_is_offered,
    a_chain_goes_on_after_any_outcome,
    a_lane_is_free_when_the_first_of_its_chain_is,
]
LATER: list[Mutation] = [
    what_has_not_begun_is_kept_when_its_bucket_goes,
    what_is_handed_back_loses_its_place,
    what_still_runs_is_not_marked_when_its_bucket_goes,
]
