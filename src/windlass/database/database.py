"""One database: its engine, its transactions, and what may be retried.

Every call is a whole transaction, so that a lost connection, a deadlock or a restart of the server
can be answered by doing all of it again. Callers therefore write transactions that may run twice.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import Pool

from windlass import telemetry
from windlass.database.dialect import Dialect, dialect_of
from windlass.errors import BadDatabase, DatabaseUnavailable
from windlass.fork import watch_forks

T = TypeVar("T")

TRIES = 8
CONFLICT_SECONDS = 10.0
LONGEST_WAIT = 60.0
CONFLICT_PAUSE = 0.005
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0

DRIVERS = {
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
    "sqlite": "sqlite",
}
KNOWN_DRIVERS = ("psycopg", "pymysql", "pysqlite")
EXTRAS = {"postgresql": "postgresql", "mysql": "mysql", "mariadb": "mysql"}


class Database:
    """A shard: where rows are, and how to reach them."""

    def __init__(self, url: str | URL | Engine) -> None:
        given = url if isinstance(url, Engine) else None
        self.url = normalise(url.url if isinstance(url, Engine) else url)
        self.dialect: Dialect = dialect_of(self.url)
        if given is not None and self.dialect.is_private(self.url):
            raise BadDatabase(
                "an Engine on SQLite in memory cannot be shared: what it holds is in its own "
                "connection; use a file, or give the URL"
            )
        self.engine: Engine = _engine(self.url, self.dialect, given)
        self.dialect.prepare(self.engine)
        self._patience = threading.local()
        # Connections whose statements stand alone; changing one back and forth costs more.
        self._passing = self.engine
        if self.dialect.commits_alone:
            self._passing = _engine(self.url, self.dialect, given, isolation_level="AUTOCOMMIT")
            self.dialect.prepare(self._passing)
        self._of_parent: list[Pool] = []
        watch_forks(self)

    @property
    def engines(self) -> set[Engine]:
        """All engines it uses, for those who listen to them."""
        return {self.engine, self._passing}

    @property
    def name(self) -> str:
        """The URL without its password, for people."""
        return self.url.render_as_string(hide_password=True)

    def write(
        self, work: Callable[[Connection], T], *, tries: int = TRIES, patient: bool = True
    ) -> T:
        """Run `work` in one transaction that writes; all of it again when that can help.

        Unless it is `patient`, rows that somebody else holds are the caller's business.
        """
        return self._again(lambda: self._in_transaction(work), tries, patient=patient)

    def write_as(
        self,
        worker: int,
        work: Callable[[Connection], T],
        *,
        lost: T,
        tries: int = TRIES,
        patient: bool = True,
    ) -> T:
        """`write` on behalf of a worker; `lost`, with nothing written, if it was marked left.

        Its row stays locked until the transaction ends, so nobody can mark it left meanwhile.
        """

        def fenced(connection: Connection) -> T:
            is_alive = self.dialect.alive(connection, worker, patient=patient)
            return work(connection) if is_alive else lost

        return self.write(fenced, tries=tries, patient=patient)

    def read(self, work: Callable[[Connection], T], *, tries: int = TRIES) -> T:
        """Run `work`, which only reads; each statement stands alone."""
        return self._again(lambda: self._in_passing(work), tries)

    def snapshot(self, work: Callable[[Connection], T], *, tries: int = TRIES) -> T:
        """Run `work`, which only reads; all of it sees the rows of one moment."""
        return self._again(lambda: self._at_one_moment(work), tries)

    def single(
        self, work: Callable[[Connection], T], *, tries: int = TRIES, patient: bool = True
    ) -> T:
        """Run `work`, one statement that is a transaction by itself where the database has that."""
        if self.dialect.commits_alone:
            return self._again(lambda: self._in_passing(work), tries, patient=patient)
        return self.write(work, tries=tries, patient=patient)

    def measure(self, *, tries: int = TRIES) -> int:
        """The time of the database now."""
        return self.read(self.dialect.measure, tries=tries)

    @contextmanager
    def hasty(self, tries: int) -> Iterator[None]:
        """Let nothing on this thread take more tries than these, while the block lasts."""
        self._patience.tries = tries
        try:
            yield
        finally:
            del self._patience.tries

    def close(self) -> None:
        """Give back all connections."""
        for engine in self.engines:
            engine.dispose()

    def after_fork(self) -> None:
        """Connect anew; the connections of the parent are left alone."""
        for engine in self.engines:
            # Kept for ever: a connection that is closed here may end for the parent, too.
            self._of_parent.append(engine.pool)
            engine.dispose(close=False)

    def _in_transaction(self, work: Callable[[Connection], T]) -> T:
        with self.dialect.turn, self.engine.connect() as connection:
            writing = self.dialect.writing(connection)
            with writing.begin():
                return work(writing)

    def _in_passing(self, work: Callable[[Connection], T]) -> T:
        with self._passing.connect() as connection:
            return work(connection)

    def _at_one_moment(self, work: Callable[[Connection], T]) -> T:
        with self.engine.connect() as connection:
            # The pool rolls back when it gets the connection back.
            return work(self.dialect.at_one_moment(connection))

    def _again(self, once: Callable[[], T], tries: int, *, patient: bool = True) -> T:
        tries = min(tries, getattr(self._patience, "tries", tries))
        failures = conflicts = 0
        began = time.monotonic()
        while True:
            try:
                return once()
            except (DBAPIError, PoolTimeout) as problem:
                if not self.can_retry(problem) or (not patient and self.dialect.is_locked(problem)):
                    raise
                # Two that met and had to part again say nothing about the server.
                elapsed = time.monotonic() - began
                if self.dialect.is_conflict(problem) and elapsed < CONFLICT_SECONDS:
                    conflicts += 1
                    pause = CONFLICT_PAUSE * min(conflicts, 20)
                else:
                    failures += 1
                    pause = min(FIRST_PAUSE * 2 ** (failures - 1), LONGEST_PAUSE)
                    if failures >= tries or elapsed > LONGEST_WAIT:
                        raise DatabaseUnavailable(
                            f"{self.name}: {first_line(problem)} (after {failures} tries); look "
                            "whether the database is up and the URL is right"
                        ) from problem
                    telemetry.emit("database.failed", database=self.name, error=first_line(problem))
            time.sleep(pause * random.uniform(0.5, 1.0))

    def can_retry(self, problem: Exception) -> bool:
        """Whether doing the whole transaction again can help."""
        if isinstance(problem, PoolTimeout):
            return True
        if not isinstance(problem, DBAPIError):
            return False
        return (
            problem.connection_invalidated
            or self.dialect.is_conflict(problem)
            or self.dialect.is_outage(problem)
        )


def normalise(given: str | URL) -> URL:
    """The URL with the driver Windlass uses, or an error that says what is wrong with it."""
    try:
        url = make_url(given)
    except ArgumentError as problem:
        raise BadDatabase(
            f"database {given!r} is not a URL; write it as sqlite:///shop.db, "
            "postgresql://user@host/name or mysql://user@host/name"
        ) from problem
    backend = url.drivername.split("+")[0]
    if backend not in DRIVERS:
        raise BadDatabase(
            f"database {url.render_as_string()!r}: {backend!r} is not supported; "
            "use sqlite, postgresql, mysql or mariadb"
        )
    if "+" not in url.drivername:
        return url.set(drivername=DRIVERS[backend])
    if url.drivername.split("+")[1] not in KNOWN_DRIVERS:
        raise BadDatabase(
            f"database {url.render_as_string()!r}: Windlass speaks through psycopg, PyMySQL and "
            "sqlite3; leave the driver out of the URL"
        )
    return url


def _engine(url: URL, dialect: Dialect, given: Engine | None = None, **options: str) -> Engine:
    """An engine of our own, which connects as the `given` one does."""
    try:
        # Errors are kept and shown: what they were about, maybe a secret, is nobody's business.
        own = dialect.engine_options(url) | {"hide_parameters": True}
        if given is not None:
            own = {
                name: own[name] for name in own if name in ("isolation_level", "hide_parameters")
            }
            own["pool"] = given.pool.recreate()
        return create_engine(dialect.clean(url), **own | options)
    except (ImportError, NoSuchModuleError) as problem:
        backend = url.drivername.split("+")[0]
        raise BadDatabase(
            f"database {url.render_as_string()!r} needs a driver that is not installed; "
            f"run: pip install 'windlass[{EXTRAS.get(backend, 'all')}]'"
        ) from problem


def first_line(problem: BaseException) -> str:
    """What went wrong, in one line."""
    cause = getattr(problem, "orig", None) or problem
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0][:300]
