"""SQLite: a write-ahead log, one writer at a time, several processes."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from sqlalchemy import URL, Connection, Engine, Table, event, text
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.pool import QueuePool

from windlass.database.bound import Bounds
from windlass.database.dialect import statement as sql
from windlass.database.dialect.base import Dialect, Executor, Tier, document, original, visited_rows
from windlass.database.dialect.hazard import hazards
from windlass.errors import BadDatabase
from windlass.fork import watch_forks
from windlass.value.outcome import Change, Visits

BUSY_SECONDS = 30.0
IN_MEMORY = (None, "", ":memory:")
OLDEST = (3, 38, 0)
SYNCHRONOUS = ("FULL", "NORMAL", "EXTRA", "OFF")

TAKE_NUMBERS = text(
    "update windlass_number set next = next + :count where name = 'id' returning next - :count"
)

# The database is in this process and counts a million entries quickly.
COUNTED_AT_MOST = 1_000_000
COUNT_DUE = text("""
select count(*) from (
    select 1 from windlass_task indexed by windlass_task_due
    where status = 0 and kind = :kind and priority = :priority and due_at <= :until limit :limit
)
""")

CHANGE = """
update windlass_task as t set {changed} from {rows}
where t.id = changes.id and {as_taken} changes.fence
returning id, prune_at
"""

VISIT = f"""
update windlass_task as t set {sql.VISITED}, started_at = c.value ->> 2
from json_each(:rows) as c
where t.id = (c.value ->> 0) and {{as_taken}} (c.value ->> 1)
returning id, prune_at
"""

REMOVE = """
delete from windlass_task
where id in (
    select t.id from json_each(:fences) as f
    join windlass_task as t on t.id = (f.value ->> 0)
    where {as_taken} (f.value ->> 1)
)
returning id
"""

# It has no lateral join; by this the list of lanes stays outside.
CHAINS = f"""
select {sql.LANE_COLUMNS} from {{rows}} cross join windlass_task as t
where t.id in ({sql.FIRST_OF_LANE.replace("{columns}", "h.id")}) and {sql.FREE_LANE}
"""


class Turn:
    """Lets one transaction write at a time. A nested one would deadlock, so it is an error."""

    def __init__(self) -> None:
        self.after_fork()
        watch_forks(self)

    def after_fork(self) -> None:
        """Start anew: the thread that had the turn in the parent is not in this process."""
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._inside = threading.local()

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Inside the block, this thread works in a transaction that another thread began."""
        self._inside.is_joined = True
        try:
            yield
        finally:
            self._inside.is_joined = False

    def share(self) -> None:
        """Let the transaction that has the turn end on another thread than this one."""
        self._owner = None

    def __enter__(self) -> None:
        is_inside = self._owner == threading.get_ident() or getattr(
            self._inside, "is_joined", False
        )
        assert not is_inside, "a transaction that writes inside another"
        self._lock.acquire()
        self._owner = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self._owner = None
        self._lock.release()


def _allow_only_rollback(action: int, argument: str | None, *_: str | None) -> int:
    is_rollback = action == sqlite3.SQLITE_TRANSACTION and argument == "ROLLBACK"
    return sqlite3.SQLITE_OK if is_rollback else sqlite3.SQLITE_DENY


class SQLite(Dialect):
    """SQLite, a file on this machine."""

    name = "sqlite"
    migrates_itself = True
    is_embedded = True
    loses_answers = False
    numbers_join = True
    hold_alone = ""
    has_shard = "select 1 from sqlite_master where name = 'windlass_shard'"
    # Changes nothing, but locks the database for writing.
    keep_others_out = text("update windlass_shard set id = id where 0 = 1")

    conflicts = ("busy",)
    duplicates = tuple(f"SQLITE_CONSTRAINT_{of}" for of in ("PRIMARYKEY", "UNIQUE", "ROWID"))
    missing = ("missing",)

    hint = "indexed by windlass_task_due"
    lane_hint = "indexed by windlass_task_lane"
    chains_text = CHAINS
    lock = ""
    greatest = "max"
    change_text, visit_text, remove_text = CHANGE, VISIT, REMOVE

    def __init__(self) -> None:
        super().__init__()
        # Threads of this process wait here and are woken at once. SQLite itself would sleep and
        # try again.
        self.turn = self._turn = Turn()
        self._tiers = text(
            sql.TIERS.format(hint=self.hint, kinds="(select value as kind from json_each(:kinds))")
        )

    def engine_options(self, url: URL, bounds: Bounds) -> dict[str, Any]:
        # A statement takes long only while another process writes.
        waits = BUSY_SECONDS if bounds.statement is None else bounds.statement
        if self.is_private(url):
            bounds = bounds.with_pool(1)
        return {
            "connect_args": {"timeout": waits, "check_same_thread": False},
            "poolclass": QueuePool,
            **bounds.pool,
        }

    def clean(self, url: URL) -> URL:
        asked = str(url.query.get("synchronous", "FULL")).upper()
        if asked not in SYNCHRONOUS:
            raise BadDatabase(f"synchronous={asked!r} is not one of {', '.join(SYNCHRONOUS)}")
        self._synchronous = asked
        return url.difference_update_query(["synchronous"])

    def is_private(self, url: URL) -> bool:
        return url.database in IN_MEMORY

    def hazards(self, url: URL) -> list[str]:
        file = url.database
        return [] if file is None or self.is_private(url) else hazards(file)

    def prepare(self, engine: Engine, bounds: Bounds | None) -> None:
        if sqlite3.sqlite_version_info < OLDEST:
            raise BadDatabase(
                f"SQLite {sqlite3.sqlite_version} is too old; Windlass needs "
                f"{'.'.join(map(str, OLDEST))} or newer"
            )

        @event.listens_for(engine, "connect")
        def on_connect(raw: sqlite3.Connection, _record: object) -> None:
            # Windlass begins its transactions itself; sqlite3 would begin them too late.
            raw.isolation_level = None
            cursor = raw.cursor()
            cursor.execute("pragma journal_mode = wal")
            cursor.execute(f"pragma synchronous = {self._synchronous}")
            cursor.execute("pragma temp_store = memory")
            cursor.execute("pragma cache_size = -32000")
            cursor.close()

        @event.listens_for(engine, "begin")
        def on_begin(connection: Connection) -> None:
            if connection.get_execution_options().get("windlass_write"):
                connection.exec_driver_sql("begin immediate")

    def writing(self, connection: Connection) -> Connection:
        return connection.execution_options(windlass_write=True)

    def share_turn(self) -> None:
        self._turn.share()

    def at_one_moment(self, connection: Connection) -> Connection:
        connection.exec_driver_sql("begin")
        return connection

    def lent(self, connection: Connection) -> AbstractContextManager[object]:
        return self._turn.joined()

    def abort(self, connection: Connection) -> None:
        raw: Any = connection.connection.driver_connection
        raw.interrupt()
        # Without a transaction, each statement of the other thread would commit by itself.
        raw.set_authorizer(_allow_only_rollback)
        raw.rollback()

    def raw_cursor(self, raw: Any) -> Any:
        cursor = raw.cursor()
        cursor.row_factory = None
        return cursor

    def code_of(self, problem: Exception) -> object:
        cause = original(problem)
        said = str(cause)
        if isinstance(cause, sqlite3.OperationalError) and ("locked" in said or "busy" in said):
            return "busy"
        if said.startswith("no such table: windlass_"):
            return "missing"
        return getattr(cause, "sqlite_errorname", None)

    def measure(self, connection: Connection) -> int:
        # The file is on this machine, so this machine's clock counts.
        return time.time_ns() // 1_000

    def take_numbers(self, executor: Executor, count: int) -> list[range]:
        first = executor.execute(TAKE_NUMBERS, {"count": count}).fetchall()[0][0]
        return [range(first, first + count)]

    def rows(self, name: str, **columns: type) -> str:
        values = ", ".join(f"value ->> '{column}' as {column}" for column in columns)
        return f"(select {values} from json_each(:{name})) as {name}"

    def ids(self, ids: Iterable[int]) -> tuple[str, dict[str, str]]:
        return "in (select value from json_each(:ids))", {"ids": document(list(ids))}

    def texts(self, texts: Iterable[str]) -> tuple[str, dict[str, str]]:
        return "in (select value from json_each(:texts))", {"texts": document(list(texts))}

    def ensure_all(
        self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        connection.execute(insert(table).on_conflict_do_nothing(), list(rows))

    def estimate_due(self, connection: Connection, tier: Tier, *, until: int) -> int:
        asked = {"kind": tier.kind, "priority": tier.priority, "until": until}
        return int(connection.execute(COUNT_DUE, asked | {"limit": COUNTED_AT_MOST}).scalar_one())

    def tiers(self, connection: Connection, kinds: Collection[str]) -> list[Tier]:
        rows = connection.execute(self._tiers, {"kinds": document(list(kinds))})
        return [Tier(*row) for row in rows.fetchall()]

    def free(self, connection: Connection, ids: Collection[int]) -> set[int]:
        return set(ids)

    def change(
        self, connection: Connection, changes: Sequence[Change], *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        asked = {"changes": document(changes), "worker": worker}
        return dict(map(tuple, connection.execute(self._change[is_read], asked).fetchall()))

    def visit(
        self, connection: Connection, visits: Visits, *, worker: int, is_read: bool
    ) -> dict[int, int | None]:
        asked = {**sql.visited(visits, worker), "rows": visited_rows(visits)}
        return dict(map(tuple, connection.execute(self._visit[is_read], asked).fetchall()))

    def remove(
        self, connection: Connection, fences: Mapping[int, int], *, is_read: bool, now: int
    ) -> set[int]:
        # Without traces: no answer is lost.
        asked = {"fences": document(list(fences.items()))}
        rows = connection.execute(self._remove[is_read], asked)
        return {row[0] for row in rows.fetchall()}
