"""Rows of lanes keep their order, and never run too many at once, whatever happens to workers."""

from collections.abc import Iterator

import pytest

from tests.simulation.lane import LaneStage
from tests.simulation.lane_mutation import LATER, SOON
from tests.simulation.mutation import Mutation
from tests.simulation.test_simulation import check, check_that_it_is_found

STEPS = 4_000
SECONDS = 60.0
PARTS = 5
STEPS_OF_A_PART = 50_000


@pytest.fixture
def stage() -> Iterator[LaneStage]:
    stage = LaneStage()
    yield stage
    stage.close()


@pytest.mark.timeout(300)
def test_rows_of_lanes_run_in_order_and_never_too_many_at_once(stage):
    explored = check(stage, first=1, steps=STEPS, seconds=SECONDS)

    assert explored.walks > 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_rows_of_lanes_run_in_order_for_many_steps(stage, part):
    explored = check(stage, first=1_000_000 * (part + 1), steps=STEPS_OF_A_PART)

    assert explored.steps >= STEPS_OF_A_PART


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutation", SOON, ids=lambda mutation: mutation.__name__)
def test_without_one_of_the_guards_of_lanes_something_is_found(stage, mutation: Mutation):
    check_that_it_is_found(stage, mutation)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mutation", LATER, ids=lambda mutation: mutation.__name__)
def test_without_one_of_the_guards_of_lanes_something_is_found_in_the_end(
    stage, mutation: Mutation
):
    check_that_it_is_found(stage, mutation)
