"""Writing many new items at once, as each database does it fastest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, text

from windlass.database.dialect import PerDialect
from windlass.database.dialect.base import encode
from windlass.database.dialect.postgresql.driver import copy_lines, escaped
from windlass.value.period import PAYLOAD


class NewItem(NamedTuple):
    """An item that is about to be written."""

    id: int
    code: str
    bucket: int
    due_at: int


class NewItems(NamedTuple):
    """Items of one rolling kind that are about to be written."""

    kind: str
    priority: int
    created_at: int
    rows: Sequence[NewItem]

    @property
    def shared(self) -> dict[str, str | int]:
        """What all of them have, as parameters."""
        return {"kind": self.kind, "priority": self.priority, "created_at": self.created_at}


class Inserter(ABC):
    """Writes new items into one database."""

    # Whether `copy` is there.
    copies = False

    @abstractmethod
    def insert(self, connection: Connection, new: NewItems) -> int:
        """Write the items that are not there yet; how many that were."""

    def copy(self, connection: Connection, new: NewItems) -> None:
        """Write items of which none is there, the fastest way."""
        raise NotImplementedError


class SQLiteInserter(Inserter):
    """Row by row: everything is near."""

    statement = """
        insert into windlass_task
            (id, task_key, bucket, due_at, kind, priority, payload, created_at, status)
        values (?, ?, ?, ?, ?, ?, ?, ?, 0) on conflict do nothing
    """

    def insert(self, connection: Connection, new: NewItems) -> int:
        shared = (new.kind, new.priority, PAYLOAD, new.created_at)
        rows = [(*row, *shared) for row in new.rows]
        return connection.exec_driver_sql(self.statement, rows).rowcount


class MySQLInserter(Inserter):
    """As one document. What was written is counted afterwards, by the numbers of the rows."""

    statement = text(f"""
        insert into windlass_task
            (id, kind, task_key, bucket, status, priority, due_at, payload, created_at)
        select id, :kind, code, bucket, 0, :priority, due_at, '{PAYLOAD}', :created_at
        from json_table(:rows, '$[*]' columns (
            id bigint path '$[0]', code varchar(255) path '$[1]', bucket smallint path '$[2]',
            due_at bigint path '$[3]')) as r
        on duplicate key update id = windlass_task.id
    """)
    count = text(
        "select count(*) from windlass_task where id between :first and :last and kind = :kind"
    )

    def insert(self, connection: Connection, new: NewItems) -> int:
        connection.execute(self.statement, {**new.shared, "rows": encode(new.rows).decode()})
        made = 0
        for numbers in _stretches([row.id for row in new.rows]):
            between = {"first": numbers[0], "last": numbers[-1], "kind": new.kind}
            made += int(connection.execute(self.count, between).scalar_one())
        return made


class PostgreSQLInserter(Inserter):
    """As arrays, or by COPY, which cannot leave out what is there."""

    copies = True
    statement = text(f"""
        with made as (
            insert into windlass_task
                (id, kind, task_key, bucket, status, priority, due_at, payload, created_at)
            select id, :kind, code, bucket, 0, :priority, due_at, cast('{PAYLOAD}' as json),
                :created_at
            from unnest(cast(:ids as bigint[]), cast(:codes as text[]),
                cast(:buckets as smallint[]), cast(:due_at as bigint[]))
                as r (id, code, bucket, due_at)
            on conflict do nothing returning 1
        )
        select count(*) from made
    """)
    copy_statement = """
        copy windlass_task
            (id, kind, task_key, bucket, due_at, status, priority, payload, created_at) from stdin
    """

    def insert(self, connection: Connection, new: NewItems) -> int:
        names = ("ids", "codes", "buckets", "due_at")
        columns = dict(zip(names, map(list, zip(*new.rows, strict=True)), strict=True))
        return int(connection.execute(self.statement, {**new.shared, **columns}).scalar_one())

    def copy(self, connection: Connection, new: NewItems) -> None:
        kind = escaped(new.kind)
        end = f"\t0\t{new.priority}\t{PAYLOAD}\t{new.created_at}\n"

        def line(row: NewItem) -> str:
            return f"{row.id}\t{kind}\t{escaped(row.code)}\t{row.bucket}\t{row.due_at}{end}"

        is_copied = copy_lines(connection, self.copy_statement, new.rows, line)
        assert is_copied


INSERTERS = PerDialect[Inserter](
    sqlite=SQLiteInserter(), postgresql=PostgreSQLInserter(), mysql=MySQLInserter()
)


def _stretches(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """Numbers that follow each other, together."""
    begin = 0
    for index in range(1, len(numbers) + 1):
        if index == len(numbers) or numbers[index] != numbers[index - 1] + 1:
            yield numbers[begin:index]
            begin = index
