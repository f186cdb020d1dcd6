"""Where a walk plays: a database in memory, a clock, and a place to interrupt whoever uses it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tests.fixture.clockwork import following
from windlass import App, telemetry
from windlass.clock import ManualClock
from windlass.core.fetch import fetcher as alone
from windlass.core.finish import finish
from windlass.core.finish.finish import Finish
from windlass.core.run.ready import KindLoad, Run
from windlass.database.database import Database, Numbers
from windlass.database.schema import metadata
from windlass.value.task import Claimed

LEASE = "2s"
DEAD_AFTER = "1s"
PERIOD = "4s"
BEGIN = 1_700_000_000_000_000
KEPT = {"windlass_bucket", "windlass_number", "windlass_shard"}


class Stage:
    """One app that everybody shares, and what they meet at."""

    # What walks are like here; and the kind that some workers do not serve.
    world: Callable[..., Any]
    rare_kind = "rare"
    # How many runs each worker may have at once.
    concurrency = 3

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
        self.poisoned: Callable[[Sequence[Claimed]], None] | None = None
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
        assert self.app.fleet.single is not None
        numbers = self.app.fleet.single.numbers
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
        with pytest.MonkeyPatch.context() as patch, following(self.clock):
            self._interrupt_transactions(patch)
            self._watch_runs(patch)
            self._watch_outcomes(patch)
            # A row that is to run alone is tried again sooner than in half a minute.
            for name in ("PATIENCE", "LEAVE_ALONE_FOR", "LAST_RESORT"):
                patch.setattr(alone, name, 1.0)
            patch.setattr(telemetry, "emit", lambda *_name, **_facts: None)
            yield

    def _interrupt_transactions(self, patch: pytest.MonkeyPatch) -> None:
        write, read, fetch = Database._in_transaction, Database._without_begin, Numbers._fetch

        def interrupted_write(database: Database, work: Callable[..., Any]) -> Any:
            self._interrupt(before=True)
            answer = write(database, work)
            self._interrupt(before=False)
            return answer

        def interrupted_read(database: Database, work: Callable[..., Any]) -> Any:
            answer = read(database, work)
            self._interrupt(before=False)
            return answer

        def uninterrupted_fetch(numbers: Numbers, count: int, tries: int) -> None:
            # The lock of the numbers is held: nobody of the same process could come between.
            self._is_counting = True
            try:
                fetch(numbers, count, tries)
            finally:
                self._is_counting = False

        patch.setattr(Database, "_in_transaction", interrupted_write)
        patch.setattr(Database, "_without_begin", interrupted_read)
        patch.setattr(Numbers, "_fetch", uninterrupted_fetch)

    def _watch_runs(self, patch: pytest.MonkeyPatch) -> None:
        begin, fail = Run.__init__, Finish.fail_as_poison

        def watched_run(run: Run, task: Claimed, load: KindLoad) -> None:
            begin(run, task, load)
            if self.taken is not None:
                self.taken(run)

        def watched_fail(finishing: Finish, connection: Any, tasks: list[Claimed]) -> None:
            if self.poisoned is not None:
                self.poisoned(tasks)
            fail(finishing, connection, tasks)

        patch.setattr(Run, "__init__", watched_run)
        patch.setattr(Finish, "fail_as_poison", watched_fail)

    def _watch_outcomes(self, patch: pytest.MonkeyPatch) -> None:
        store, write = Finish._store, finish.write_group
        writing: list[Sequence[Run]] = []

        def watched_store(finishing: Finish, runs: Sequence[Run], **options: Any) -> None:
            writing.append(runs)
            try:
                store(finishing, runs, **options)
            finally:
                writing.pop()

        def watched_write(*given: Any, beside: Any, **options: Any) -> Any:
            runs = writing[-1]

            def watched_beside(connection: Any, accepted: set[int]) -> None:
                beside(connection, accepted)
                if self.accepted is not None:
                    self.accepted(runs, accepted)

            return write(*given, beside=watched_beside, **options)

        patch.setattr(Finish, "_store", watched_store)
        patch.setattr(finish, "write_group", watched_write)

    def _interrupt(self, *, before: bool) -> None:
        if self.interrupt is not None and not self._is_counting:
            self.interrupt(before)

    def close(self) -> None:
        self.app.close()
