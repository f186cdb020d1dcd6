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
from windlass.core.finish import finish
from windlass.core.ring import store as ring_store
from windlass.value import bucket as lane_value


def what_others_run_does_not_count(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    reword(patch, stage, "r.status = 1", "r.status = 9")


def the_newest_goes_first(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    reword(patch, stage, "order by h.due_at, h.id", "order by h.due_at desc, h.id desc")


def a_row_that_holds_its_lane_is_not_first(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    reword(patch, stage, "h.lane_place = lanes.held", "h.lane_place = lanes.held and 0 = 1")


def reword(patch: pytest.MonkeyPatch, stage: Stage, said: str, instead: str) -> None:
    """Change the statement that finds the first row of each lane."""
    dialect: Any = stage.app.database.dialect
    assert said in dialect._heads.text
    patch.setattr(dialect, "_heads", text(dialect._heads.text.replace(said, instead)))


def a_failing_row_does_not_hold_its_lane(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    patch.setattr(finish, "_holding", lambda _runs, _accepted: [])


def what_is_handed_back_loses_its_place(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    patch.setattr(ring_store.lane, "holding", lambda _connection: {})


def rows_of_lanes_are_read_like_others(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    def spread(number: int) -> int:
        return lane_value.owned_with(number >> (lane_value.BITS - 8))

    for module in ("windlass.core.task.enqueue", "tests.simulation.lane"):
        patch.setattr(f"{module}.bucket_of_lane", spread)


# Those that are found within some walks, and those that take many.
SOON: list[Mutation] = [
    what_others_run_does_not_count,
    the_newest_goes_first,
    a_row_that_holds_its_lane_is_not_first,
    a_failing_row_does_not_hold_its_lane,
    rows_of_lanes_are_read_like_others,
    what_runs_is_offered,
    what_has_not_begun_is_kept_when_its_bucket_goes,
]
LATER: list[Mutation] = [
    what_is_handed_back_loses_its_place,
    what_still_runs_is_not_marked_when_its_bucket_goes,
]
