"""Heartbeats for outside services: a URL is called while all is well, and its silence alarms."""

from __future__ import annotations

from concurrent.futures import Future, wait
from functools import partial

from windlass import telemetry
from windlass.core.alert import store as alert_store
from windlass.core.face import FaceLoop, Site
from windlass.core.finish.store import MINUTE, work_of
from windlass.database.connection import Connection
from windlass.database.database import has_tables
from windlass.errors import Undelivered
from windlass.value.twin import in_background
from windlass.watch.declare import Beat, Watching
from windlass.watch.store import watch as store

PAUSE_SECONDS = 1.0


class Beats(FaceLoop):
    """Calls the URLs of an app; workers with the same URL take turns."""

    name = "beat"

    def __init__(self, site: Site, watching: Watching) -> None:
        super().__init__()
        self._site = site
        self._watching = watching
        self._pings: dict[str, Future[None]] = {}
        self.is_idle = True

    def tick(self) -> float:
        for beat in self._watching.beats:
            is_due = partial(self._is_due, beat=beat)
            if beat.name not in self._pings and self._site.database.write(is_due, tries=1):
                self._pings[beat.name] = in_background(partial(_ping, beat), "beat")
        # A URL that hangs does not hold up the others.
        wait(self._pings.values(), timeout=PAUSE_SECONDS)
        self._pings = {name: ping for name, ping in self._pings.items() if not ping.done()}
        return PAUSE_SECONDS

    def _is_due(self, connection: Connection, *, beat: Beat) -> bool:
        if not has_tables(connection, alert_store.TABLES):
            return False
        now, dialect = self._site.clock.now(), self._site.database.dialect
        if store.take_turn(connection, dialect, beat.name, now=now, until=now + beat.every) is None:
            return False
        if beat.kind is None:
            return True
        work = work_of(connection, beat.kind, minute=(now - beat.every) // MINUTE)
        return work is not None and work.done > 0


def _ping(beat: Beat) -> None:
    try:
        beat.sender.ping()
    except Undelivered as problem:
        telemetry.emit("beat.failed", kind=beat.kind or "", error=str(problem))
