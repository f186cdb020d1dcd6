"""One database: its engine, its transactions and their retries, and its numbers.

Every call is a whole transaction. After a lost connection, a deadlock or a server restart it runs
again from the start, so callers write transactions that may run twice.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import (
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

from windlass import lent, telemetry
from windlass.database.access import Password, ask_password, check_password, reach
from windlass.database.bound import Bounds
from windlass.database.connection import TABLES
from windlass.database.dialect import Dialect, dialect_of
from windlass.database.dialect.base import BLOCK, Executor, original
from windlass.database.dialect.hazard import refusal
from windlass.database.joined import JOINED
from windlass.database.url import normalise, place_of, show
from windlass.database.version import SchemaVersion, Tables, read_tables
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
    "Numbers",
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
LONGEST_WAIT = 30.0
CONFLICT_PAUSE = 0.005
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0

# Workers of one process share these; each of them needs one.
RESERVED = 4
FRESH_SECONDS = 10.0
MOST_BLOCKS = 64

EXTRAS = {"postgresql": "postgresql", "mysql": "mysql", "mariadb": "mysql"}


def has_tables(connection: Connection, version: str) -> bool:
    """Whether the database of one of our own connections has a migration."""
    known: Callable[[str], bool] | None = connection.get_execution_options().get(TABLES)
    return known is None or known(version)


class Database:
    """One database: its engines, and transactions that are retried."""

    def __init__(
        self,
        url: str | URL | Engine,
        *,
        bounds: Bounds | None = None,
        password: Password | None = None,
        schema: str | None = None,
        like: Database | None = None,
    ) -> None:
        given = url if isinstance(url, Engine) else None
        if isinstance(url, Engine):
            self.url = normalise(url.url)
        else:
            self.url = reach(url, schema=schema) if like is None else like.url
        self.password: Password | None = (
            check_password(self.url, password) if like is None else like.password
        )
        self.dialect: Dialect = dialect_of(self.url) if like is None else like.dialect
        self.bounds = bounds or Bounds()
        if given is not None and self.dialect.is_private(self.url):
            raise BadDatabase(
                "an Engine on SQLite in memory cannot be shared: only its own connection sees the "
                "data; use a file, or give the URL"
            )
        self._pool_facts = ""
        if given is None:
            pool = self.bounds
            self._pool_facts = f" for {pool.pool_wait:g} s (pool_size={pool.pool_size})"
        self._can_be_apart = given is None and like is None and not self.dialect.is_embedded
        self.engine: Engine = self._make_engine(given)
        self._patience = threading.local()
        # A second engine: switching a connection to autocommit and back costs more.
        self._autocommit = self.engine
        if self.dialect.commits_alone:
            self._autocommit = self._make_engine(given, isolation_level="AUTOCOMMIT")
        self._like = like
        # The version of its tables: `schema.has("0002")`.
        self.schema = SchemaVersion(self.name, lambda: self.read(self.tables))
        if like is None:
            self.dialect.has_tables = self.has_tables
        else:
            self.schema = like.schema
        # How often all connections were thrown away, and when last.
        self.renewals = 0
        self._renewed_at = 0.0
        self._is_reached = False
        self._parent_pools: list[Pool] = []
        watch_forks(self)

    def _make_engine(self, given: Engine | None, **options: str) -> Engine:
        """A new engine that connects as the `given` one does."""
        try:
            # Errors are stored and shown, and parameters may be secrets.
            own = self.dialect.engine_options(self.url, self.bounds) | {"hide_parameters": True}
            own["execution_options"] = {TABLES: self.has_tables}
            if given is not None:
                shared = ("isolation_level", "hide_parameters", "execution_options")
                own = {name: own[name] for name in own if name in shared}
                own["pool"] = given.pool.recreate()
            engine = create_engine(self.dialect.clean(self.url), **own | options)
            if given is None:
                self._check_options(engine)
        except (ImportError, NoSuchModuleError) as problem:
            backend = self.url.drivername.split("+")[0]
            raise BadDatabase(
                f"database {self.name!r} needs a driver that is not installed; "
                f"run: pip install 'windlass[{EXTRAS.get(backend, 'all')}]'"
            ) from problem
        if given is None:
            connect = self.dialect.connector(engine, self.bounds)

            @event.listens_for(engine, "do_connect")
            def on_connect(_dialect: object, _record: object, unnamed: Any, named: Any) -> Any:
                return connect(*unnamed, **{**named, **self._secret()})

        # Kept: SQLAlchemy makes the path of a SQLite file absolute, by the folder of this moment.
        self.connect_args = engine.dialect.create_connect_args(engine.url)
        self.dialect.prepare(engine, self.bounds if given is None else None)
        return engine

    def has_tables(self, version: str) -> bool:
        """Whether the tables have a migration."""
        # The engine is made before the version of the tables can be read.
        tables = self.schema.tables
        return (tables is not None and version in tables.ended) or self.schema.has(version)

    def tables(self, connection: Connection) -> Tables:
        """How far the tables of this database are."""
        return read_tables(connection, schema=self.dialect.schema)

    def _check_options(self, engine: Engine) -> None:
        if known := self.dialect.known_options():
            _, given = engine.dialect.create_connect_args(engine.url)
            if unknown := sorted(given.keys() - set(known)):
                raise BadDatabase(
                    f"database {self.name!r}: the driver {engine.dialect.driver} does not know the "
                    f"option {unknown[0]!r}; leave it out"
                )

    def connect_arguments(self) -> dict[str, Any]:
        """What the driver's own `connect` needs, by name; call it for each new connection.

        It has the password, so it must not be stored or logged. Statements on such a connection
        need `dialect.qualified`.
        """
        if lent.LOANS:
            lent.check(self._place, lambda: self.name)
        unnamed, named = self.engine.dialect.create_connect_args(self.dialect.clean(self.url))
        options = self.dialect.engine_options(self.url, self.bounds)["connect_args"]
        # Only the driver of SQLite takes a file, which it calls the database.
        file = dict(zip(("database",), unnamed, strict=False))
        return {**file, **named, **options, **self._secret()}

    def _place(self) -> str:
        return place_of(self.url)

    def _secret(self) -> dict[str, str]:
        if self.password is None:
            return {}
        return {"password": ask_password(self.url, self.password)}

    @cached_property
    def reserved(self) -> Database:
        """The same database with connections of its own, which handlers cannot use up."""
        if not self._can_be_apart:
            return self
        return Database(self.url, bounds=self.bounds.with_pool(RESERVED), like=self)

    @contextmanager
    def unbounded(self) -> Iterator[Database]:
        """Inside the block, the same database for work whose statements may take any time."""
        if not self._can_be_apart:
            yield self
            return
        database = Database(self.url, bounds=self.bounds.endless, like=self)
        try:
            yield database
        finally:
            database.close()

    @property
    def engines(self) -> set[Engine]:
        """All its engines, to listen to their events."""
        own = {self.engine, self._autocommit}
        return own if self.reserved is self else own | self.reserved.engines

    @property
    def name(self) -> str:
        """The URL without its password, for people."""
        return show(self.url)

    def write(
        self, work: Callable[[Connection], T], *, tries: int = TRIES, patient: bool = True
    ) -> T:
        """Run `work` in one writing transaction; retry all of it when that can help.

        Unless `patient`, it fails when another transaction holds a row for too long. In a joined
        transaction of this database it is part of that one, and is not retried.
        """
        joined = JOINED.get()
        if joined is not None and joined.database is self:
            return joined.write(work)
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
        joined = JOINED.get()
        if joined is not None and joined.database is self and joined.has_begun:
            return joined.read(work)
        return self._retry(lambda: self._without_begin(work), tries)

    def snapshot(self, work: Callable[[Connection], T], *, tries: int = TRIES) -> T:
        """Run `work`, which only reads, on one snapshot."""
        return self._retry(lambda: self._at_one_moment(work), tries)

    def session(self, work: Callable[[Connection], T], *, tries: int = TRIES) -> T:
        """Run `work`, which begins its own transactions, on one connection; retry all of it."""

        def once() -> T:
            with self.engine.connect() as connection:
                return work(connection)

        return self._retry(once, tries)

    def single(
        self, work: Callable[[Connection], T], *, tries: int = TRIES, patient: bool = True
    ) -> T:
        """Run `work`, one statement, in autocommit where the dialect `commits_alone`."""
        if self.dialect.commits_alone and JOINED.get() is None:
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
        for engine in {self.engine, self._autocommit}:
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
        if lent.LOANS:
            lent.check(self._place, lambda: self.name)
        tries = min(tries, getattr(self._patience, "tries", tries))
        failures = conflicts = 0
        began = tried = time.monotonic()
        while True:
            try:
                answer = once()
                self._is_reached = True
                return answer
            except PoolTimeout as problem:
                raise DatabaseUnavailable(
                    f"{self.name}: all connections of this process were in use{self._pool_facts}; "
                    "find what holds them, such as handlers that wait for a lock, or allow more"
                ) from problem
            except DBAPIError as problem:
                self._refuse(problem)
                if self.dialect.is_read_only(problem):
                    self.renew(unless_since=tried)
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
                    if failures >= tries or elapsed >= (self.bounds.socket or LONGEST_WAIT):
                        times = "1 try" if failures == 1 else f"{failures} tries"
                        raise DatabaseUnavailable(
                            f"{self.name}: {first_line(problem)} (after {times}); "
                            f"{self._advice(problem)}"
                        ) from problem
                    telemetry.emit("database.failed", database=self.name, error=first_line(problem))
            time.sleep(pause * random.uniform(0.5, 1.0))
            tried = time.monotonic()

    def _refuse(self, problem: DBAPIError) -> None:
        """Raise BadDatabase if this is no database that can be used."""
        file = self.url.database if self.dialect.is_embedded else None
        why = file and refusal(original(problem), file, was_reached=self._is_reached)
        if why:
            raise BadDatabase(f"database {self.name!r}: {why}") from problem

    def _advice(self, problem: Exception) -> str:
        if "certificate" in str(problem).lower():
            return "check ca=, and that the server's certificate is for the host in the URL"
        if self.dialect.is_read_only(problem):
            return "the server only allows reading; check that the URL leads to the primary"
        return "check that the database is up and the URL is right"

    def renew(self, *, unless_since: float) -> None:
        """Throw all connections away: after a failover they may lead to the old primary.

        Nothing happens if that was done after `unless_since`, on the monotonic clock.
        """
        if self._like is not None:
            self._like.renew(unless_since=unless_since)
        elif self._renewed_at < unless_since:
            self._renewed_at = time.monotonic()
            self.renewals += 1
            for engine in self.engines:
                engine.dispose()

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


class Numbers:
    """Numbers for rows, batches and workers: unique in the database, roughly in time order.

    They are taken in blocks, before they are used. So a transaction whose answer was lost can run
    again with the same numbers, and takes effect once. A block is used for a short time only, to
    keep numbers in time order. Threads may share this object.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.after_fork()
        watch_forks(self)

    def after_fork(self) -> None:
        """Forget the numbers of the parent."""
        self._lock = threading.Lock()
        self._left: list[range] = []
        self._taken_at = 0.0
        self._blocks = 1

    def take(
        self,
        count: int = 1,
        *,
        inside: Executor | None = None,
        tries: int = TRIES,
        newest: bool = False,
    ) -> list[int]:
        """`count` new numbers, taken `inside` the caller's transaction if they must be.

        With `newest`, they are larger than all that any process has used before this call.
        """
        dialect = self._database.dialect
        if inside is not None and dialect.numbers_join:
            return list(chain.from_iterable(dialect.take_numbers(inside, count)))
        joined = JOINED.get()
        if dialect.numbers_join and joined is not None and joined.database is self._database:
            # Another transaction would wait for this one without end.
            return self.take(count, inside=joined.connection)
        if newest:
            return list(chain.from_iterable(self._taken(count, tries)))[:count]
        with self._lock:
            if time.monotonic() - self._taken_at > FRESH_SECONDS:
                self._left, self._blocks = [], 1
            numbers: list[int] = []
            while len(numbers) < count:
                if not self._left:
                    self._fetch(count - len(numbers), tries)
                numbers += self._use(count - len(numbers))
            return numbers

    def _fetch(self, count: int, tries: int) -> None:
        self._left = self._taken(max(self._blocks * BLOCK, count), tries)
        self._blocks = min(self._blocks * 2, MOST_BLOCKS)
        self._taken_at = time.monotonic()

    def _taken(self, wanted: int, tries: int) -> list[range]:
        # Numbers that were taken stay taken, whatever becomes of a transaction that calls join.
        token = JOINED.set(None)
        try:
            return self._database.write(
                lambda connection: self._database.dialect.take_numbers(connection, wanted),
                tries=tries,
            )
        finally:
            JOINED.reset(token)

    def _use(self, count: int) -> list[int]:
        first, *rest = self._left
        self._left = ([first[count:]] if len(first) > count else []) + rest
        return list(first[:count])


def first_line(problem: BaseException) -> str:
    """The first line of an error."""
    cause = getattr(problem, "orig", None) or problem
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0][:300]
