"""How a worker is doing, for its line on the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.value.metric import Sample


@dataclass(frozen=True)
class Pulse:
    """How many tasks a worker runs and has queued, and what became of the others."""

    running: int
    queued: int
    done: int
    failed: int
    abandoned: int


@dataclass(frozen=True)
class Report:
    """What a worker process tells its supervisor; `trouble` is why it takes no work."""

    pulse: Pulse
    trouble: str | None
    # What it has counted, if metrics are asked for.
    samples: list[Sample] | None = None
