"""Walks, one after the other, until one of them breaks something; then the shortest way there."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from tests.simulation.oracle import Violation
from tests.simulation.stage import Stage
from tests.simulation.world import Step, World

LENGTH = 120
SHRINK_SECONDS = 20.0


@dataclass(frozen=True)
class Found:
    """A violation, the steps that lead to it, and what happened on the way."""

    seed: int
    problem: Violation
    steps: list[Step]
    log: list[str]

    @property
    def is_of_the_protocol(self) -> bool:
        """Whether it is what must not happen, and no mistake in a line of code."""
        return str(self.problem).startswith("S")

    def __str__(self) -> str:
        trace = "\n".join(self.log)
        return f"seed {self.seed}, {len(self.steps)} steps: {self.problem}\n{trace}"


@dataclass
class Explored:
    """How far it came, and what it found."""

    walks: int = 0
    steps: int = 0
    found: Found | None = None


def explore(
    stage: Stage,
    seeds: Iterable[int],
    *,
    steps: float = float("inf"),
    seconds: float = float("inf"),
) -> Explored:
    """Walk by each of the seeds, until that is enough, or something is broken."""
    explored = Explored()
    end = time.monotonic() + seconds
    for seed in seeds:
        if explored.steps >= steps or time.monotonic() > end:
            break
        world, explored.found = _walk(stage, seed)
        explored.walks += 1
        explored.steps += world.steps
        if explored.found is not None:
            break
    return explored


def shrink(stage: Stage, found: Found, *, seconds: float = SHRINK_SECONDS) -> Found:
    """The same violation by fewer steps: whatever can be left out is, while there is time."""
    end = time.monotonic() + seconds
    size = max(1, len(found.steps) // 2)
    while size:
        at = 0
        while at < len(found.steps) and time.monotonic() < end:
            fewer = found.steps[:at] + found.steps[at + size :]
            _world, again = _walk(stage, found.seed, fewer)
            if again is not None and str(again.problem)[:2] == str(found.problem)[:2]:
                found = again
            else:
                at += size
        size //= 2
    return found


def _walk(stage: Stage, seed: int, steps: list[Step] | None = None) -> tuple[World, Found | None]:
    world = stage.world(stage, seed)
    try:
        if steps is None:
            world.walk(LENGTH)
        else:
            world.replay(steps)
        world.come_to_rest()
    except Violation as problem:
        taken = world.taken if steps is None else steps
        return world, Found(seed, problem, taken, world.log)
    return world, None
