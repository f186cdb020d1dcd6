"""Status: what runs, what waits, who works."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from windlass.clock import Clock
from windlass.declare.kind import CRON_KEY, Registry
from windlass.store import cron, history, migrate, task, worker
from windlass.store.database import Database
from windlass.store.history import MINUTE, FailureView, Work
from windlass.store.task import COUNTED_EXACTLY
from windlass.store.worker import WorkerView

RECENT_MINUTES = 60


@dataclass(frozen=True)
class KindStatus:
    """How one kind is doing. Counts are exact up to 10,000."""

    kind: str
    is_declared: bool
    cron: str | None
    next_due_at: int | None
    waiting: int
    due: int
    running: int
    failed: int
    done_last_hour: int
    failed_last_hour: int
    average_milliseconds: float | None
    why: str


@dataclass(frozen=True)
class AppStatus:
    """How everything is doing. Times are microseconds since the epoch."""

    database: str
    schema: str
    now: int
    kinds: list[KindStatus]
    workers: list[WorkerView]
    failures: list[FailureView]


def look(database: Database, clock: Clock, registry: Registry) -> AppStatus:
    """How everything is doing now."""
    now = clock.now()

    def read(connection: Connection) -> AppStatus:
        workers = worker.listing(connection)
        done = {
            work.kind: work
            for work in history.work_since(connection, minute=now // MINUTE - RECENT_MINUTES)
        }
        names = set(registry.kinds) | set(cron.kinds_waiting(connection)) | set(done)
        return AppStatus(
            database=database.name,
            schema=migrate.VERSION,
            now=now,
            kinds=[
                _kind(connection, name, registry, done.get(name), workers, now)
                for name in sorted(names)
            ],
            workers=workers,
            failures=history.recent_failures(connection, limit=5),
        )

    return database.read(read)


def due_text(database: Database, clock: Clock, registry: Registry) -> str:
    """How many rows are due, for people: exact up to a bound, then with a plus."""
    now = clock.now()

    def read(connection: Connection) -> int:
        return sum(task.counts(connection, name, now=now)["due"] for name in registry.kinds)

    due = database.read(read, tries=1)
    return f"{COUNTED_EXACTLY:,}+" if due > COUNTED_EXACTLY else f"{due:,}"


def _kind(
    connection: Connection,
    name: str,
    registry: Registry,
    work: Work | None,
    workers: list[WorkerView],
    now: int,
) -> KindStatus:
    counts = task.counts(connection, name, now=now)
    kind = registry.kinds.get(name)
    schedule = None if kind is None or kind.schedule is None else kind.schedule
    standing = None if schedule is None else task.find(connection, name, CRON_KEY)
    ended = 0 if work is None else work.done + work.failed + work.retried
    is_served = any(name in view.kinds for view in workers)
    return KindStatus(
        kind=name,
        is_declared=kind is not None,
        cron=None if schedule is None else f"{schedule.expression} {schedule.zone}",
        next_due_at=None if standing is None else standing.due_at,
        **counts,
        done_last_hour=0 if work is None else work.done,
        failed_last_hour=0 if work is None else work.failed,
        average_milliseconds=None if work is None or not ended else work.milliseconds / ended,
        why=_why(counts, is_served=is_served, is_declared=kind is not None),
    )


def _why(counts: dict[str, int], *, is_served: bool, is_declared: bool) -> str:
    """Why it does or does not run, in a few words."""
    if counts["running"]:
        return "running"
    if not is_served:
        return "no worker" if is_declared else "no worker declares it"
    return "starting" if counts["due"] else "nothing due"
