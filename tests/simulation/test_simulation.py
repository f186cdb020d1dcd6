"""Workers join, die, stand still and come back in every order, and what must hold holds.

A violation prints its seed and the shortest trace that was found. To see it again:
`explore(stage, [seed])`.
"""

from collections.abc import Iterator

import pytest

from tests.simulation.explore import Explored, explore, shrink
from tests.simulation.mutation import LATER, SOON, Mutation
from tests.simulation.stage import Stage

STEPS = 10_000
SECONDS = 120.0
PARTS = 20
STEPS_OF_A_PART = 50_000
WALKS_OF_A_MUTATION = 600


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.close()


@pytest.mark.timeout(300)
def test_nothing_is_run_twice_lost_or_left(stage):
    explored = check(stage, first=1, steps=STEPS, seconds=SECONDS)

    assert explored.walks > 10


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_is_run_twice_lost_or_left_in_a_million_steps(stage, part):
    explored = check(stage, first=1_000_000 * (part + 1), steps=STEPS_OF_A_PART)

    assert explored.steps >= STEPS_OF_A_PART


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutation", SOON, ids=lambda mutation: mutation.__name__)
def test_without_one_of_the_guards_something_is_found(stage, mutation: Mutation):
    check_that_it_is_found(stage, mutation)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mutation", LATER, ids=lambda mutation: mutation.__name__)
def test_without_one_of_the_guards_something_is_found_in_the_end(stage, mutation: Mutation):
    check_that_it_is_found(stage, mutation)


def test_a_violation_is_told_by_a_short_trace(stage):
    with stage.open(), pytest.MonkeyPatch.context() as patch:
        SOON[0](patch, stage)
        found = explore(stage, range(1, WALKS_OF_A_MUTATION)).found
        assert found is not None

        short = shrink(stage, found, seconds=4)

    assert len(short.steps) < len(found.steps)
    assert f"seed {found.seed}" in str(short)


def check_that_it_is_found(stage: Stage, mutation: Mutation) -> None:
    """Take a guard away, and walk until something must not happen."""
    with stage.open(), pytest.MonkeyPatch.context() as patch:
        mutation(patch, stage)

        explored = explore(stage, range(1, WALKS_OF_A_MUTATION))

    assert explored.found is not None
    assert explored.found.is_of_the_protocol


def check(stage: Stage, *, first: int, steps: int, seconds: float = float("inf")) -> Explored:
    """Walk for so many steps, or as many as there is time for, and tell what went wrong."""
    with stage.open():
        seeds = range(first, first + 1_000_000)
        explored = explore(stage, seeds, steps=steps, seconds=seconds)
        if explored.found is not None:
            pytest.fail(str(shrink(stage, explored.found)), pytrace=False)
    return explored
