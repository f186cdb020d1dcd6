"""How everything is doing, as the terminal and the console show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from windlass.core.ring.store.worker import WorkerView
from windlass.value.task import FailureView
from windlass.view.field import Moment

NOTHING_DUE = "nothing due"


@dataclass(frozen=True)
class KindStatus:
    """How a kind is doing. Counts are exact up to 10,000; `why` says why it runs or does not."""

    kind: str
    is_declared: bool
    cron: str | None
    every: str | None
    # Of a sweep: its round, and how much of it is done.
    sweep: str | None
    next_due_at: Moment | None
    waiting: int
    due: int
    running: int
    failed: int
    done_last_hour: int
    failed_last_hour: int
    average_milliseconds: float | None
    paused: bool
    reason: str | None
    who: str | None
    since: Moment | None
    opens_at: Moment | None
    probe_at: Moment | None
    rate: str | None
    window: str | None
    concurrency: int | None
    breaker: str
    why: str
    # Whether a switch, a window or a breaker keeps it from running.
    is_held_back: bool


@dataclass(frozen=True)
class AppStatus:
    """How everything is doing; what the shards in `missing` have is not counted."""

    database: str
    schema: str
    now: Moment
    kinds: list[KindStatus]
    workers: list[WorkerView]
    failures: list[FailureView]
    shards: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class WorkerLine(WorkerView):
    """A worker that has not left. `idle` is how many tasks it could start while it has none."""

    is_alive: bool


def worker_lines(found: AppStatus) -> list[WorkerLine]:
    """The workers, and whether they are alive."""
    return [
        WorkerLine(**vars(each), is_alive=each.lease_until >= found.now) for each in found.workers
    ]


def kind_together(same: Sequence[KindStatus]) -> KindStatus:
    """How a kind is doing in several shards."""
    ended = [kind.done_last_hour + kind.failed_last_hour for kind in same]
    spent = [
        (kind.average_milliseconds or 0.0) * count for kind, count in zip(same, ended, strict=True)
    ]
    moments = [kind.next_due_at for kind in same if kind.next_due_at is not None]
    reasons = list(dict.fromkeys(kind.why for kind in same))
    telling = [why for why in reasons if why != NOTHING_DUE]
    counts = ("waiting", "due", "running", "failed", "done_last_hour", "failed_last_hour")
    return replace(
        same[0],
        next_due_at=min(moments, default=None),
        **{name: sum(getattr(kind, name) for kind in same) for name in counts},
        average_milliseconds=sum(spent) / sum(ended) if sum(ended) else None,
        why="; ".join(telling or reasons),
        is_held_back=any(kind.is_held_back for kind in same),
    )
