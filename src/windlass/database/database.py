"""One database: its engine, its transactions, and their retries.

Every call is a whole transaction. After a lost connection, a deadlock or a server restart it runs
again from the start, so callers write transactions that may run twice.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import Pool

from windlass import telemetry
from windlass.database.dialect import Dialect, dialect_of
from windlass.errors import BadDatabase, DatabaseUnavailable
from windlass.fork import watch_forks

__all__ = [
    "BAD_VALUES",
    "DATABASE_ERRORS",
    "OUTAGE_ERRORS",
    "TRIES",
    "URL",
    "Database",
    "DatabaseError",
    "PoolTimeout",
    "first_line",
    "normalise",
]

T = TypeVar("T")

# Raised by a database or its driver.
DatabaseError = DBAPIError
# Raised by SQLAlchemy, including its own errors.
DATABASE_ERRORS = (SQLAlchemyError,)
# What it raises when it is away, or a connection was lost.
OUTAGE_ERRORS = (OperationalError, InterfaceError)
# Raised for values that cannot be stored.
BAD_VALUES = (DataError, IntegrityError, UnicodeError, TypeError)

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
    """One database: its engines, and transactions that are retried."""

    def __init__(self, url: str | URL | Engine) -> None:
        given = url if isinstance(url, Engine) else None
        self.url = normalise(url.url if isinstance(url, Engine) else url)
        self.dialect: Dialect = dialect_of(self.url)
        if given is not None and self.dialect.is_private(self.url):
            raise BadDatabase(
                "an Engine on SQLite in memory cannot be shared: only its own connection sees the "
                "data; use a file, or give the URL"
            )
        self.engine: Engine = _engine(self.url, self.dialect, given)
        self.dialect.prepare(self.engine)
        self._patience = threading.local()
        # A second engine: switching a connection to autocommit and back costs more.
        self._autocommit = self.engine
        if self.dialect.commits_alone:
            self._autocommit = _engine(self.url, self.dialect, given, isolation_level="AUTOCOMMIT")
            self.dialect.prepare(self._autocommit)
        self._parent_pools: list[Pool] = []
        watch_forks(self)

    @property
    def engines(self) -> set[Engine]:
        """All its engines, to listen to their events."""
        return {self.engine, self._autocommit}

    @property
    def name(self) -> str:
        """The URL without its password, for people."""
        return self.url.render_as_string(hide_password=True)

    def write(
        self, work: Callable[[Connection], T], *, tries: int = TRIES, patient: bool = True
    ) -> T:
        """Run `work` in one writing transaction; retry all of it when that can help.

        Unless `patient`, it fails when another transaction holds a row for too long.
        """
        return self._retry(lambda: self._in_transaction(work), tries, patient=patient)

    def write_as(
        self,
        worker: int,
        work: Callable[[Connection], T],
        *,
        lost: T,
        tries: int = TRIES,
        patient: bool = True,
    ) -> T:
        """`write` for a worker; returns `lost`, and writes nothing, if it was marked left.

        Its row stays locked until the transaction ends, so it cannot be marked left meanwhile.
        """

        def fenced(connection: Connection) -> T:
            is_alive = self.dialect.alive(connection, worker, patient=patient)
            return work(connection) if is_alive else lost

        return self.write(fenced, tries=tries, patient=patient)

    def write_locked_as(
        self,
        worker: int,
        locks: Collection[int],
        work: Callable[[Connection, Mapping[int, int]], T],
        *,
        lost: T,
        tries: int = TRIES,
        patient: bool = True,
    ) -> T:
        """`write_as`, with the running task rows in `locks` locked first.

        `work` gets their ids and open slots, without rows that have ended. To avoid deadlocks,
        every transaction that locks such a row together with others locks it first.
        """

        def fenced(connection: Connection) -> T:
            if not locks:
                is_alive = self.dialect.alive(connection, worker, patient=patient)
                return work(connection, {}) if is_alive else lost
            locked = self.dialect.alive_with(connection, worker, locks, patient=patient)
            return lost if locked is None else work(connection, locked)

        return self.write(fenced, tries=tries, patient=patient)

    def write_unless_locked(self, work: Callable[[Connection], T], *, locked: T) -> T:
        """`write`, or `locked` if another transaction holds one of the rows for too long."""
        try:
            return self.write(work, patient=False)
        except DBAPIError as problem:
            if self.dialect.is_locked(problem):
                return locked
            raise

    def read(self, work: Callable[[Connection], T], *, tries: int = TRIES) -> T:
        """Run `work`, which only reads; its statements do not share a snapshot."""
        return self._retry(lambda: self._without_begin(work), tries)

    def snapshot(self, work: Callable[[Connection], T], *, tries: int = TRIES) -> T:
        """Run `work`, which only reads, on one snapshot."""
        return self._retry(lambda: self._at_one_moment(work), tries)

    def single(
        self, work: Callable[[Connection], T], *, tries: int = TRIES, patient: bool = True
    ) -> T:
        """Run `work`, one statement, in autocommit where the dialect `commits_alone`."""
        if self.dialect.commits_alone:
            return self._retry(lambda: self._without_begin(work), tries, patient=patient)
        return self.write(work, tries=tries, patient=patient)

    def filled(self, places: Sequence[str]) -> set[str]:
        """The places that have rows: tables, each with an optional `where`."""
        asked = ", ".join(f"exists (select 1 from {place})" for place in places)
        found = self.read(lambda connection: connection.exec_driver_sql(f"select {asked}").one())
        return {place for place, has_rows in zip(places, found, strict=True) if has_rows}

    def measure(self, *, tries: int = TRIES) -> int:
        """The current time of the database."""
        return self.read(self.dialect.measure, tries=tries)

    @contextmanager
    def hasty(self, tries: int) -> Iterator[None]:
        """Allow at most `tries` for every call on this thread inside the block."""
        self._patience.tries = tries
        try:
            yield
        finally:
            del self._patience.tries

    def close(self) -> None:
        """Close all connections."""
        for engine in self.engines:
            engine.dispose()

    def after_fork(self) -> None:
        """Connect again; leave the connections of the parent alone."""
        for engine in self.engines:
            # Kept alive: closing its connections here would end them for the parent too.
            self._parent_pools.append(engine.pool)
            engine.dispose(close=False)

    def _in_transaction(self, work: Callable[[Connection], T]) -> T:
        with self.dialect.turn, self.engine.connect() as connection:
            writing = self.dialect.writing(connection)
            with writing.begin():
                return work(writing)

    def _without_begin(self, work: Callable[[Connection], T]) -> T:
        with self._autocommit.connect() as connection:
            return work(connection)

    def _at_one_moment(self, work: Callable[[Connection], T]) -> T:
        with self.engine.connect() as connection:
            # Returning the connection to the pool rolls back.
            return work(self.dialect.at_one_moment(connection))

    def _retry(self, once: Callable[[], T], tries: int, *, patient: bool = True) -> T:
        tries = min(tries, getattr(self._patience, "tries", tries))
        failures = conflicts = 0
        began = time.monotonic()
        while True:
            try:
                return once()
            except (DBAPIError, PoolTimeout) as problem:
                if not self.can_retry(problem) or (not patient and self.dialect.is_locked(problem)):
                    raise
                # A conflict between two transactions does not count as a server failure.
                elapsed = time.monotonic() - began
                if self.dialect.is_conflict(problem) and elapsed < CONFLICT_SECONDS:
                    conflicts += 1
                    pause = CONFLICT_PAUSE * min(conflicts, 20)
                else:
                    failures += 1
                    pause = min(FIRST_PAUSE * 2 ** (failures - 1), LONGEST_PAUSE)
                    if failures >= tries or elapsed > LONGEST_WAIT:
                        raise DatabaseUnavailable(
                            f"{self.name}: {first_line(problem)} (after {failures} tries); check "
                            "that the database is up and the URL is right"
                        ) from problem
                    telemetry.emit("database.failed", database=self.name, error=first_line(problem))
            time.sleep(pause * random.uniform(0.5, 1.0))

    def can_retry(self, problem: Exception) -> bool:
        """Whether repeating the whole transaction can help."""
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
    """The URL with the driver that Windlass uses; BadDatabase if that is impossible."""
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
            f"database {url.render_as_string()!r}: Windlass uses the drivers psycopg, PyMySQL and "
            "sqlite3; leave the driver out of the URL"
        )
    return url


def _engine(url: URL, dialect: Dialect, given: Engine | None = None, **options: str) -> Engine:
    """A new engine that connects as the `given` one does."""
    try:
        # Errors are stored and shown, and parameters may be secrets.
        own = dialect.engine_options(url) | {"hide_parameters": True}
        if given is not None:
            shared = ("isolation_level", "hide_parameters")
            own = {name: own[name] for name in own if name in shared}
            own["pool"] = given.pool.recreate()
        return create_engine(dialect.clean(url), **own | options)
    except (ImportError, NoSuchModuleError) as problem:
        backend = url.drivername.split("+")[0]
        raise BadDatabase(
            f"database {url.render_as_string()!r} needs a driver that is not installed; "
            f"run: pip install 'windlass[{EXTRAS.get(backend, 'all')}]'"
        ) from problem


def first_line(problem: BaseException) -> str:
    """The first line of an error."""
    cause = getattr(problem, "orig", None) or problem
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0][:300]
