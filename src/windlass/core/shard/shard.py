"""One shard: a database with everything that writes into it, and whether it seems to be up.

No call waits for a shard that is down. The first call that fails marks it down, and a thread checks
from time to time whether it is back. So only the first call is slow.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import as_completed
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from windlass import telemetry
from windlass.clock import Clock
from windlass.core.face import Faces
from windlass.core.shard.store import shard as store
from windlass.core.shard.store.shard import ShardRow
from windlass.core.task.enqueue import TaskWriter
from windlass.core.wake.bell import Bell
from windlass.database import migrate
from windlass.database.database import OUTAGE_ERRORS, Database, Numbers, PoolTimeout, first_line
from windlass.errors import DatabaseUnavailable
from windlass.value.twin import in_background

T = TypeVar("T")

OUTAGES = (DatabaseUnavailable, *OUTAGE_ERRORS, PoolTimeout, OSError)
# The second try tells whether the server is gone, or only the connection.
FEW_TRIES = 2
READ_SECONDS = 3.0
LOOK_AGAIN_AFTER = 1.0
# The time that a server needs to restart.
PATIENCE = 5.0
FIRST_PROBE = 0.2
LAST_PROBE = 5.0


class Shard:
    """A database with its clock, its numbers, and the code that writes new rows into it."""

    def __init__(
        self, index: int, database: Database, clock: Clock, *, faces: Faces, max_payload: int
    ) -> None:
        # Its place in the app's list of databases, from 1.
        self.index = index
        self.database = database
        self.clock = clock
        self.faces = faces
        self.numbers = Numbers(database)
        self.bell = Bell(database)
        self.enqueue = TaskWriter(
            database, clock, self.numbers, self.bell, faces=faces, max_payload=max_payload
        )
        self.max_payload = max_payload
        self.row: ShardRow | None = None
        self.down_since: float | None = None
        self.on_back: Callable[[], None] = lambda: None
        self._looked_at = 0.0
        self._lock = threading.Lock()
        self._closed = threading.Event()

    @property
    def name(self) -> str:
        """The URL of its database, without the password."""
        return self.database.name

    @property
    def ring(self) -> str:
        """Its permanent name; it must have been opened."""
        assert self.row is not None
        return self.row.ring

    def is_named(self, name: str) -> bool:
        """Whether a person means it by `name`: its number in the list, its database, or its URL."""
        database = self.database.url.database or ""
        return name in {str(self.index), self.name, database, database.rpartition("/")[2]}

    def prepare(self, *, tries: int) -> None:
        """Make sure that its tables exist. In SQLite they are created."""
        migrate.prepare(self.database, tries=tries)

    def open(self) -> ShardRow:
        """Make sure that its tables exist, and read its shard row."""
        self.prepare(tries=FEW_TRIES)
        return self.look()

    def look(self) -> ShardRow:
        """Read its shard row."""
        self.row = self.database.read(store.get, tries=FEW_TRIES)
        self._looked_at = time.monotonic()
        return self.row

    def is_known(self) -> bool:
        """Whether its shard row was read recently."""
        return self.row is not None and time.monotonic() - self._looked_at < LOOK_AGAIN_AFTER

    @property
    def is_up(self) -> bool:
        return self.down_since is None

    @property
    def is_down_for_long(self) -> bool:
        """Whether it is down for too long to wait for it."""
        since = self.down_since
        return since is not None and time.monotonic() - since > PATIENCE

    def unavailable(self, what: str, problem: BaseException) -> DatabaseUnavailable:
        """Mark it down; the error for a caller that needs this shard, beginning with `what`."""
        self.failed(problem)
        return DatabaseUnavailable(
            f"{what} {self.name}, which does not answer: {first_line(problem)}",
            missing=(self.name,),
        )

    def failed(self, problem: BaseException) -> None:
        """Mark it down, and check from time to time whether it is back."""
        with self._lock:
            if self.down_since is not None or self._closed.is_set():
                return
            self.down_since = time.monotonic()
        telemetry.emit("shard.down", shard=self.name, error=first_line(problem))
        threading.Thread(target=self._probe, name="windlass-probe", daemon=True).start()

    def close(self) -> None:
        """Close its connections."""
        self._closed.set()
        self.bell.close()
        self.database.close()
        self._closed = threading.Event()
        self.down_since = None

    def _probe(self) -> None:
        closed, pause = self._closed, FIRST_PROBE
        while not closed.wait(pause):
            try:
                self.look() if self.row is not None else self.open()
            except Exception:
                pause = min(pause * 2, LAST_PROBE)
                continue
            self.down_since = None
            telemetry.emit("shard.back", shard=self.name)
            self.on_back()
            return


@dataclass(frozen=True)
class Answers(Generic[T]):
    """The answers of shards, in their order, and the names of those that did not answer."""

    found: list[tuple[Shard, T]]
    missing: tuple[str, ...]

    @property
    def values(self) -> list[T]:
        return [value for _, value in self.found]


def fan_out(
    shards: Iterable[Shard], work: Callable[[Shard], T], *, seconds: float | None = None
) -> Answers[T]:
    """Ask all shards at once, and wait up to `seconds`; shards that are down are missing."""
    asked = list(shards)
    patience = READ_SECONDS if seconds is None else seconds

    def ask(shard: Shard) -> T:
        with shard.database.hasty(FEW_TRIES):
            return work(shard)

    waiting = {in_background(partial(ask, shard), "ask"): shard for shard in asked if shard.is_up}
    found: dict[Shard, T] = {}
    with suppress(TimeoutError):
        for answer in as_completed(waiting, timeout=patience):
            shard, problem = waiting[answer], answer.exception()
            if isinstance(problem, OUTAGES):
                shard.failed(problem)
            elif problem is not None:
                raise problem
            else:
                found[shard] = answer.result()
    for answer, shard in waiting.items():
        if not answer.done():
            # If it was only busy, the probe sees it back in a moment.
            shard.failed(TimeoutError(f"no answer within {patience:g} s"))
    answered = [(shard, found[shard]) for shard in asked if shard in found]
    missing = tuple(shard.name for shard in asked if shard not in found)
    return Answers(answered, missing)
