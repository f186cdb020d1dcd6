"""What the terminal and the console show: status, alerts and the audit log.

A person acknowledges a trouble: all alerts of one sort and one kind up to now, or for a while. One
acknowledgement therefore quiets all of them, and a later report is open again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from windlass.core.ring.store import WorkerView
from windlass.value.payload import ArgumentView
from windlass.value.task import FailureView
from windlass.view.field import JsonText, Moment, exposed
from windlass.view.said import Spoken, as_said, joined, say

NOTHING_DUE = say("why.nothing_due")
SeverityName = Literal["info", "warning", "critical"]
Family = Literal["task", "cron", "rolling", "sweep", "flow", "external", "queue", "unknown"]


@dataclass(frozen=True)
class KindStatus:
    """How a kind is doing. Counts are exact up to 10,000; `why` says why it runs or does not."""

    kind: str
    is_declared: bool
    cron: str | None
    every: str | None
    # Of a sweep: its round, and how much of it is done.
    sweep: str | None
    # The queue by which it is carried to consumers.
    via: str | None
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
    until: Moment | None
    group: str | None
    opens_at: Moment | None
    probe_at: Moment | None
    rate: str | None
    window: str | None
    concurrency: int | None
    breaker: str
    why: str
    # Whether a switch, a window or a breaker keeps it from running.
    is_held_back: bool

    @property
    @exposed
    def says(self) -> Spoken | None:
        """`why`, with its code and values for other languages."""
        return as_said(self.why)


@dataclass(frozen=True)
class DeclaredView:
    """What the code declares; an operator may have set other values."""

    summary: str
    arguments: list[ArgumentView]
    retries: int
    timeout: str | None
    rate: str | None
    window: str | None
    group: str | None
    concurrency: int | None
    total_concurrency: int | None
    priority: int
    breaker: str | None
    downstreams: list[str]
    # The queue that carries it to consumers, and where its broker is.
    via: str | None
    # What its handler runs in, if not in the worker: "process", maybe with a limit of memory.
    isolate: str | None


@dataclass(frozen=True)
class KindView(KindStatus):
    """A kind. Counts are exact up to 10,000; `why` says why it runs or does not."""

    family: Family
    declared: DeclaredView | None


@dataclass(frozen=True)
class Minute:
    """What was done in the minute that began `at`, in microseconds since the epoch."""

    at: Moment
    done: int
    failed: int
    retried: int
    average_milliseconds: float | None


@dataclass(frozen=True)
class KindDetail:
    """A kind, and what was done of it in the last hour, minute by minute."""

    kind: KindView
    minutes: list[Minute]


@dataclass(frozen=True)
class AppStatus:
    """How everything is doing; what the shards in `missing` have is not counted.

    `schema` is the version of the tables; `pending` are the migrations that they lack.
    """

    database: str
    schema: str
    now: Moment
    kinds: list[KindStatus]
    workers: list[WorkerView]
    failures: list[FailureView]
    shards: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()


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
        why=joined(telling or reasons),
        is_held_back=any(kind.is_held_back for kind in same),
    )


@dataclass(frozen=True)
class AlertView:
    """An alert: one for each cause, for as long as the cause lasts.

    It is open until its cause is gone or a person acknowledges it, and again after `quiet_until`.
    """

    id: int
    what: str
    kind: str | None
    task_id: int | None
    severity: SeverityName
    raised_at: Moment
    # The newest report of the cause.
    text: str
    # How often the cause was reported, and when last.
    times: int
    last_at: Moment
    # When the cause was gone, and how that was noticed.
    resolved_at: Moment | None
    resolution: str | None
    is_open: bool
    seen_by: str | None
    seen_at: Moment | None
    quiet_until: Moment | None

    @property
    def trouble(self) -> str:
        """What is acknowledged together with this alert, in words."""
        return self.what if self.kind is None else f"{self.what} of {self.kind}"


@dataclass(frozen=True)
class DeliveryView:
    """The delivery of an alert to a channel: a task, which can be retried."""

    task_id: int
    channel: str
    stage: str
    status: str
    attempts: int
    created_at: Moment
    finished_at: Moment | None


@dataclass(frozen=True)
class AlertDetail:
    """An alert, and its deliveries, newest first."""

    alert: AlertView
    deliveries: list[DeliveryView]


@dataclass(frozen=True)
class ChannelView:
    """Where alerts go. Its URL is a secret and is not shown."""

    name: str
    scheme: str
    severity: SeverityName
    kinds: list[str] | None
    every: str | None
    quiet: str | None
    fallback: str | None


@dataclass(frozen=True)
class Acknowledgement:
    """Who acknowledged a trouble, when, and until when its alerts stay quiet."""

    who: str
    seen_at: int
    quiet_until: int | None

    def quiets(self, last_at: int, *, now: int) -> bool:
        """Whether an alert that was last reported at that moment is acknowledged."""
        if self.quiet_until is None:
            return last_at <= self.seen_at
        return now < self.quiet_until


@dataclass(frozen=True)
class AuditEntry:
    """What a person did or tried; `detail` is JSON. `ok` is None until the action ends."""

    id: int
    acted_at: Moment
    who: str
    via: str
    address: str | None
    action: str
    about: str | None
    detail: JsonText | None
    ok: bool | None = None
    outcome: str | None = None
