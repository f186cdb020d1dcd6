"""Where a walk plays: one database in memory, one clock, and a place to interrupt whoever uses it."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tests.clockwork import following
from windlass import App
from windlass.clock import ManualClock
from windlass.engine import alone
from windlass.engine.finish import Finish
from windlass.engine.hold import Run
from windlass.model.task import Claimed
from windlass.store import finish
from windlass.store.database import Database
from windlass.store.number import Numbers
from windlass.store.schema import metadata

LEASE = "2s"
DEAD_AFTER = "1s"
PERIOD = "4s"
BEGIN = 1_700_000_000_000_000
KEPT = {"windlass_bucket", "windlass_number", "windlass_shard"}


class Stage:
    """One app that everybody shares, and what they meet at."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.app = App("sqlite://", clock=self.clock, lease=LEASE, dead_after=DEAD_AFTER)
        self._declare()
        self.app.prepare()
        connection = self.app.database.engine.raw_connection()
        # The only connection there is; used here only while nobody else does.
        self._raw: Any = connection.driver_connection
        connection.close()
        self.interrupt: Callable[[bool], None] | None = None
        self.taken: Callable[[Run], None] | None = None
        self.accepted: Callable[[Sequence[Run], set[int]], None] | None = None
        self.buried: Callable[[Sequence[Claimed]], None] | None = None
        self._is_counting = False

    def _declare(self) -> None:
        app = self.app

        @app.task(keep="1d", retries=3)
        async def job() -> None: ...

        @app.task(retries=3)
        async def quick() -> None: ...

        @app.task(keep="1d", retries=3)
        async def named(number: int) -> None: ...

        @app.task(keep="1d", retries=3)
        async def rare() -> None: ...

        @app.rolling(every=PERIOD)
        async def item(code: str) -> None: ...

        self.job, self.quick, self.named, self.rare, self.item = job, quick, named, rare, item

    def clear(self) -> None:
        """Begin anew: what happens then depends on the seed alone."""
        self.clock._time, self.clock._last = BEGIN, 0
        numbers = self.app._numbers
        numbers._left, numbers._blocks, numbers._taken_at = [], 1, 0.0
        for table in metadata.tables:
            if table not in KEPT:
                self._raw.execute(f"delete from {table}")
        self._raw.execute("update windlass_bucket set owner = null, careful_to = 0")
        self._raw.execute("update windlass_number set next = 1")

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """What the tables hold, at no cost worth counting."""
        return self._raw.execute(query, values).fetchall()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Put the hooks in while the block lasts."""
        write, read = Database._in_transaction, Database._in_passing
        fetch, store, bury = Numbers._fetch, Finish._store, Finish.bury
        begin = Run.__init__

        def interrupted_write(database: Database, work: Callable[..., Any]) -> Any:
            self._interrupt(before=True)
            answer = write(database, work)
            self._interrupt(before=False)
            return answer

        def interrupted_read(database: Database, work: Callable[..., Any]) -> Any:
            answer = read(database, work)
            self._interrupt(before=False)
            return answer

        def uninterrupted_fetch(numbers: Numbers, count: int) -> None:
            # The lock of the numbers is held: nobody of the same process could come between.
            self._is_counting = True
            try:
                fetch(numbers, count)
            finally:
                self._is_counting = False

        def watched_run(run: Run, task: Claimed, load: Any) -> None:
            begin(run, task, load)
            if self.taken is not None:
                self.taken(run)

        def watched_store(self_: Finish, runs: Sequence[Run], **options: Any) -> None:
            real = finish.finish

            def watched(database: Any, batch: Any, note: Any, **more: Any) -> Any:
                def watched_note(connection: Any, accepted: set[int]) -> None:
                    note(connection, accepted)
                    if self.accepted is not None:
                        self.accepted(runs, accepted)

                return real(database, batch, watched_note, **more)

            finish.finish = watched
            try:
                store(self_, runs, **options)
            finally:
                finish.finish = real

        def watched_bury(self_: Finish, tasks: list[Claimed], connection: Any) -> Any:
            if self.buried is not None:
                self.buried(tasks)
            return bury(self_, tasks, connection)

        with pytest.MonkeyPatch.context() as patch, following(self.clock):
            patch.setattr(Database, "_in_transaction", interrupted_write)
            patch.setattr(Database, "_in_passing", interrupted_read)
            patch.setattr(Numbers, "_fetch", uninterrupted_fetch)
            patch.setattr(Run, "__init__", watched_run)
            patch.setattr(Finish, "_store", watched_store)
            patch.setattr(Finish, "bury", watched_bury)
            # A row that is to run alone is tried again sooner than in half a minute.
            for name in ("PATIENCE", "LEAVE_ALONE_FOR", "LAST_RESORT"):
                patch.setattr(alone, name, 1.0)
            logging.getLogger("windlass").setLevel(logging.CRITICAL)
            yield

    def _interrupt(self, *, before: bool) -> None:
        if self.interrupt is not None and not self._is_counting:
            self.interrupt(before)

    def close(self) -> None:
        self.app.close()
