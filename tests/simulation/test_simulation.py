"""Workers join, die, stand still and come back in every order, and what must hold holds.

A violation prints its seed and the shortest trace that was found. To see it again:
`explore(stage, [seed])`.
"""

from collections.abc import Iterator

import pytest

from tests.simulation.explore import Explored, explore, shrink
from tests.simulation.mutation import MUTATIONS, Mutation
from tests.simulation.stage import Stage

STEPS = 60_000
PARTS = 20
STEPS_OF_A_PART = 50_000
WALKS_OF_A_MUTATION = 400


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.close()


def test_nothing_is_run_twice_lost_or_left(stage):
    check(stage, first=1, steps=STEPS)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_is_run_twice_lost_or_left_in_a_million_steps(stage, part):
    check(stage, first=1_000_000 * (part + 1), steps=STEPS_OF_A_PART)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_without_one_of_the_guards_something_is_found(stage, mutation: Mutation):
    with stage.open(), pytest.MonkeyPatch.context() as patch:
        mutation(patch, stage)

        explored = explore(stage, range(1, WALKS_OF_A_MUTATION))

    assert explored.found is not None
    assert explored.found.is_of_the_protocol


def test_a_violation_is_told_by_a_short_trace(stage):
    with stage.open(), pytest.MonkeyPatch.context() as patch:
        MUTATIONS[0](patch, stage)
        found = explore(stage, range(1, WALKS_OF_A_MUTATION)).found
        assert found is not None

        short = shrink(stage, found)

    assert len(short.steps) <= 30
    assert f"seed {found.seed}" in str(short)


def check(stage: Stage, *, first: int, steps: int) -> Explored:
    """Walk for so many steps, and tell what went wrong."""
    with stage.open():
        explored = explore(stage, range(first, first + 1_000_000), steps=steps)
        if explored.found is not None:
            pytest.fail(str(shrink(stage, explored.found)), pytrace=False)
    return explored
