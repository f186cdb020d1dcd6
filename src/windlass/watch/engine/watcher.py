"""The watcher: looks for problems, raises and resolves alerts, and has them delivered.

Every worker has one, and so do the console and `windlass watch`. They take turns by a row in the
database, so each look is one process's, and two watchers never tell the same thing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import msgspec

from windlass import telemetry
from windlass.clock import SECOND
from windlass.core.alert import store as alert_store
from windlass.core.alert.model import Severity, Trouble
from windlass.core.face import FaceLoop, Site
from windlass.core.task.declare import How
from windlass.core.task.enqueue import TaskWriter
from windlass.core.task.kind import Kind
from windlass.core.wake.bell import Bell
from windlass.database.connection import Connection
from windlass.database.database import has_tables
from windlass.watch.declare import Channel, Watching
from windlass.watch.engine.deliver import delivery
from windlass.watch.engine.rule import (
    GONE_AFTER,
    LASTING,
    Look,
    WatchState,
    happened,
    lasts,
    recovered,
)
from windlass.watch.store import watch as store
from windlass.watch.store.alert import is_acknowledged
from windlass.watch.store.watch import Told, TroubleRow

PAUSE_SECONDS = 5.0
TURN = 15 * SECOND
TURN_NAME = "look"
# What was resolved before this is not told any more, such as to a channel that was just declared.
TELL_RESOLVED = 24 * 60 * 60 * SECOND

# Writes a task that tells a channel about alerts, in the transaction of the connection. The stage
# is raised, repeated or resolved.
Enqueue = Callable[[Connection, Channel, str, list[int]], None]


def watcher_at(site: Site, kind: Kind) -> Watcher:
    """The watcher of a database; `kind` delivers what it tells."""
    writer = TaskWriter(
        site.database,
        site.clock,
        site.numbers,
        Bell(site.database),
        faces=site.faces,
        max_payload=site.max_payload,
    )

    def enqueue(connection: Connection, channel: Channel, stage: str, alerts: list[int]) -> None:
        writer.submit(kind, [delivery(channel, stage, alerts)], How(conn=connection))

    return Watcher(site, kind.face_terms, enqueue)


class Watcher(FaceLoop):
    """Looks when it is its turn."""

    name = "watcher"

    def __init__(self, site: Site, watching: Watching, enqueue: Enqueue) -> None:
        super().__init__()
        self._site = site
        self._watching = watching
        self._enqueue = enqueue
        self.is_idle = True

    def tick(self) -> float:
        self._site.database.write(self.look, tries=2)
        return PAUSE_SECONDS

    def look(self, connection: Connection) -> bool:
        """Look once, in one transaction; False if it is another watcher's turn."""
        now = self._site.clock.now()
        if not has_tables(connection, alert_store.TABLES):
            return False
        dialect = self._site.database.dialect
        stored = store.take_turn(connection, dialect, TURN_NAME, now=now, until=now + TURN)
        if stored is None:
            return False
        state = msgspec.json.decode(stored, type=WatchState)
        look = Look(self._site, connection, self._watching, state, now)
        self._raise(look)
        self._resolve(look)
        rows = store.troubles(connection, resolved_since=now - TELL_RESOLVED)
        self._tell(connection, self._as_declared(connection, rows, now), now)
        store.keep_state(connection, TURN_NAME, msgspec.json.encode(state).decode())
        return True

    def _raise(self, look: Look) -> None:
        for problem in self._judged(happened(look)):
            alert_store.raise_alert(look.connection, self._number(look), problem, now=look.now)
            telemetry.emit("alert.raised", what=problem.what, kind=problem.kind, text=problem.text)

    def _resolve(self, look: Look) -> None:
        """Keep what lasts, and resolve what is gone."""
        found = {problem.cause: problem for problem in self._judged(lasts(look))}
        for problem in found.values():
            is_new = alert_store.keep_alert(
                look.connection, self._number(look), problem, now=look.now
            )
            if is_new:
                telemetry.emit(
                    "alert.raised", what=problem.what, kind=problem.kind, text=problem.text
                )
        recovered_kinds = set(recovered(look))
        for cause, last_at in alert_store.open_causes(look.connection).items():
            text = _gone(cause, last_at, found, recovered_kinds, now=look.now)
            if text is not None:
                alert_store.resolve_cause(look.connection, cause, text=text, now=look.now)
                telemetry.emit("alert.resolved", cause=cause, text=text)

    def _judged(self, problems: Iterable[Trouble]) -> Iterable[Trouble]:
        for problem in problems:
            severity = self._watching.judged(problem)
            if severity is not None:
                yield replace(problem, severity=severity)

    def _number(self, look: Look) -> int:
        return self._site.numbers.take(inside=look.connection)[0]

    def _as_declared(
        self, connection: Connection, rows: Iterable[TroubleRow], now: int
    ) -> list[TroubleRow]:
        """The alerts as the app judges them: workers raise some without asking it."""
        kept = []
        for row in rows:
            raised = Severity(row.severity)
            severity = self._watching.judged(Trouble(row.what, row.kind or "", "", severity=raised))
            if severity is None:
                if row.cause is not None:
                    text = f"alert_on switches {row.what!r} off"
                    alert_store.resolve_cause(connection, row.cause, text=text, now=now)
                continue
            if severity is not raised and row.resolved_at is None:
                store.change_severity(connection, row.alert_id, severity)
            kept.append(row._replace(severity=severity))
        return kept

    def _tell(self, connection: Connection, rows: list[TroubleRow], now: int) -> None:
        """Have every channel told what it does not know, all of it in one message."""
        if not self._watching.channels:
            return
        quiet = is_acknowledged(connection, rows, now=now)
        told: dict[int, dict[str, Told]] = {}
        for channel in self._watching.channels.values():
            stages: dict[str, list[int]] = {}
            for row in rows:
                stage = stage_of(channel, row, is_quiet=row.alert_id in quiet, now=now)
                if stage is not None:
                    stages.setdefault(stage, []).append(row.alert_id)
                    by_channel = told.setdefault(row.alert_id, dict(row.told))
                    by_channel[channel.name] = Told(stage, now)
            for stage, alerts in stages.items():
                self._enqueue(connection, channel, stage, sorted(alerts))
        store.keep_told(connection, told)


def stage_of(channel: Channel, row: TroubleRow, *, is_quiet: bool, now: int) -> str | None:
    """What the channel must be told about an alert now; None for nothing."""
    if not channel.wants(row.severity, row.kind) or channel.is_quiet(row.severity, now):
        return None
    told = row.told.get(channel.name)
    if row.resolved_at is not None:
        if told is None and (row.resolved_at == row.raised_at or _was_withheld(channel, row)):
            # It was over when it was noticed, or before the quiet hours were.
            return None if is_quiet else "raised"
        is_news = told is not None and told.stage != "resolved" and told.at <= row.resolved_at
        return "resolved" if is_news and row.resolved_at != row.raised_at else None
    if is_quiet:
        return None
    if told is None:
        return "raised"
    repeats = channel.every is not None and now - told.at >= channel.every
    return "repeated" if repeats else None


def _was_withheld(channel: Channel, row: TroubleRow) -> bool:
    """Whether quiet hours kept an alert from the channel until it was resolved."""
    end = row.raised_at if row.resolved_at is None else row.resolved_at
    return channel.is_quiet(row.severity, row.raised_at) and channel.is_quiet(row.severity, end)


def _gone(
    cause: str,
    last_at: int,
    found: Mapping[str, Trouble],
    recovered_kinds: set[str],
    *,
    now: int,
) -> str | None:
    """Why the cause is gone, in words; None if it is not."""
    what, _, rest = cause.partition(":")
    kind = rest.partition(":")[0]
    if what in LASTING:
        return None if cause in found else f"{what}: not any more"
    if what in ("cron failed", "flow failed") and kind in recovered_kinds:
        return f"{kind!r} has succeeded since"
    if what in GONE_AFTER and last_at < now - GONE_AFTER[what]:
        return f"{what}: it did not happen again"
    return None
