"""The rows of hot lanes: epochs, allotments, and records that are not in the book yet.

Locks are taken in the order lane, allotments by SKU, stock; those of records and batches meet none
of these. So what writes records and what brings them into the book do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import TextClause, text

from windlass.database import schema
from windlass.database.dialect.base import Dialect, Executor
from windlass.ledger.model.hot import Allotment, Record
from windlass.ledger.store.dialect import (
    Insert,
    RowLists,
    Update,
    Write,
    documents,
    kinds,
    row_lists,
)
from windlass.ledger.store.ledger import GuardFailed

# The migration that makes the tables.
TABLES = "0017"
RECORDS = Insert(
    schema.hot_record,
    guard="not exists (select 1 from windlass_deduction as d where d.id = {0}.id)",
)
# The epoch is set to what it is: a record of another epoch finds no row.
SOLD = Update(
    schema.hot_allotment,
    sets=("epoch",),
    adds=("recorded",),
    guard="t.epoch = {0}.epoch and t.recorded + {0}.recorded <= t.quantity",
)
LANE = "select name, epoch, token, address from windlass_hot_lane"
SYNCED = Update(schema.hot_synced, adds=("quantity",))
NEW_SYNCED = text("insert into windlass_hot_synced (lane, sku, quantity) values (:lane, :sku, 0)")
ALLOTMENT = "select sku, quantity, recorded, is_open, epoch from windlass_hot_allotment"


class HotLaneRow(NamedTuple):
    """A lane as it is now."""

    name: str
    epoch: int
    token: str
    address: str


class BatchRow(NamedTuple):
    """Records that were written together: how much of each SKU they are, and since when."""

    id: str
    lane: str
    sums: dict[str, int]
    created_at: int


class RecordKey(NamedTuple):
    """What became of an id: the batch and the decision that recorded it."""

    batch: str
    record: Record
    created_at: int


class Closed(GuardFailed):
    """The epoch is over, or more would be sold than is allotted."""


class Used(GuardFailed):
    """An id was used before."""


class HotRows:
    """Reads and writes the rows of one database."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._lists: RowLists = row_lists(dialect)
        self._lock = f" {dialect.hold_alone}".rstrip()
        records = ("id", "batch", "decision", "body", "refusal", "created_at")
        self._records = self._lists.select(schema.hot_record, records)
        self._insert = self._lists.text(self._lists.write("hot_records", RECORDS))
        self._batches = self._lists.select(schema.hot_batch, kinds(schema.hot_batch))

    # Lanes and allotments

    def lane(self, executor: Executor, name: str, *, locked: bool = False) -> HotLaneRow | None:
        """The lane of that name."""
        query = text(f"{LANE} where name = :name{self._lock if locked else ''}")
        found = executor.execute(query, {"name": name}).fetchall()
        return HotLaneRow(*found[0]) if found else None

    def lanes(self, executor: Executor) -> list[HotLaneRow]:
        """All lanes, by name."""
        return [
            HotLaneRow(*row)
            for row in executor.execute(text(f"{LANE} order by name"), {}).fetchall()
        ]

    def add_lane(self, executor: Executor, lane: HotLaneRow, *, now: int) -> None:
        """A new lane. A duplicate key says that another process was quicker."""
        into = ", ".join((*HotLaneRow._fields, "opened_at"))
        values = ", ".join(f":{name}" for name in (*HotLaneRow._fields, "opened_at"))
        statement = text(f"insert into windlass_hot_lane ({into}) values ({values})")
        executor.execute(statement, {**lane._asdict(), "opened_at": now})

    def begin_epoch(self, executor: Executor, lane: HotLaneRow, *, now: int) -> None:
        """From now on only records of this epoch are taken. The lane must be locked."""
        executor.execute(
            text(
                "update windlass_hot_lane set epoch = :epoch, token = :token, "
                "address = :address, opened_at = :now where name = :name"
            ),
            {**lane._asdict(), "now": now},
        )
        executor.execute(
            text("update windlass_hot_allotment set epoch = :epoch where lane = :name"),
            {"epoch": lane.epoch, "name": lane.name},
        )

    def allotments(
        self, executor: Executor, lane: str, *, locked: bool = False
    ) -> dict[str, Allotment]:
        """The allotments of a lane, by SKU."""
        lock = self._lock if locked else ""
        query = text(f"{ALLOTMENT} where lane = :lane order by sku{lock}")
        rows = executor.execute(query, {"lane": lane}).fetchall()
        return {row[0]: Allotment(row[0], row[1], row[2], bool(row[3])) for row in rows}

    def add_allotment(
        self, executor: Executor, lane: HotLaneRow, sku: str, *, quantity: int, is_open: bool
    ) -> None:
        """Change how much is allotted of a SKU. The lane must be locked."""
        changed = executor.execute(
            text(
                "update windlass_hot_allotment set quantity = quantity + :quantity, "
                "is_open = :is_open where lane = :lane and sku = :sku"
            ),
            {"quantity": quantity, "is_open": int(is_open), "lane": lane.name, "sku": sku},
        ).rowcount
        if not changed:
            self._insert_allotment(executor, lane, sku, quantity)
            executor.execute(
                NEW_SYNCED,
                {"lane": lane.name, "sku": sku},
            )

    def hold_skus(
        self, executor: Executor, lane: str, epoch: int, lines: Mapping[str, int]
    ) -> None:
        """Lock the allotments of these SKUs. Raises Closed if they are not enough."""
        query = text(f"{ALLOTMENT} where lane = :lane and sku = :sku{self._lock}")
        for sku in sorted(lines):
            rows = executor.execute(query, {"lane": lane, "sku": sku}).fetchall()
            if not rows or rows[0][4] != epoch or rows[0][1] - rows[0][2] < lines[sku]:
                raise Closed(f"lane {lane!r}: epoch {epoch} is over")

    def sell(self, executor: Executor, lane: str, epoch: int, sums: Mapping[str, int]) -> None:
        """So much of each SKU is sold for certain. Raises Closed if the epoch is over."""
        rows = [
            {"lane": lane, "sku": sku, "epoch": epoch, "recorded": sums[sku]}
            for sku in sorted(sums)
        ]
        if rows and self._write(executor, "hot_sold", Write(SOLD, rows)) != len(rows):
            raise Closed(f"lane {lane!r}: epoch {epoch} is over")

    def add_synced(self, executor: Executor, lane: str, sums: Mapping[str, int]) -> None:
        """So much more of what is recorded is in the book."""
        rows = [{"lane": lane, "sku": sku, "quantity": sums[sku]} for sku in sorted(sums)]
        if rows and self._write(executor, "hot_synced", Write(SYNCED, rows)) != len(rows):
            raise GuardFailed(f"lane {lane!r}: there is no row for what was synced")

    def _insert_allotment(
        self, executor: Executor, lane: HotLaneRow, sku: str, quantity: int
    ) -> None:
        row = {"lane": lane.name, "sku": sku, "epoch": lane.epoch, "quantity": quantity}
        executor.execute(
            text(
                "insert into windlass_hot_allotment "
                "(lane, sku, epoch, quantity, recorded, is_open) "
                "values (:lane, :sku, :epoch, :quantity, 0, 1)"
            ),
            row,
        )

    # Records

    def record(
        self,
        executor: Executor,
        lane: HotLaneRow,
        records: Sequence[Record],
        *,
        batch: BatchRow,
    ) -> None:
        """Write down decisions of the present epoch, all or none.

        Raises Used if an id is used already, and Closed if the epoch is over. A duplicate key also
        says that an id is used.
        """
        shared = {"batch": batch.id, "created_at": batch.created_at, "problem": None}
        rows = [
            {
                "id": each.id,
                "decision": each.decision,
                "body": each.body,
                "refusal": each.refusal,
                **shared,
            }
            for each in records
        ]
        # Not as a block of MariaDB, which does not say how many rows an insert wrote.
        written = sum(
            executor.execute(self._insert, {"hot_records": listed}).rowcount
            for listed in documents(rows)
        )
        if written != len(rows):
            raise Used(f"lane {lane.name!r}: an id was used before")
        self._add_batch(executor, batch)
        self.sell(executor, lane.name, lane.epoch, batch.sums)

    def _add_batch(self, executor: Executor, batch: BatchRow) -> None:
        row = {**batch._asdict(), "sums": msgspec.json.encode(batch.sums).decode()}
        self._write(executor, "hot_batches", Write(Insert(schema.hot_batch), [row]))

    def _write(self, executor: Executor, name: str, write: Write) -> int:
        return self._lists.execute(executor, {name: write})[name]

    def found(self, executor: Executor, ids: Iterable[str]) -> dict[str, RecordKey]:
        """The records of these ids, as far as they are not in the book yet."""
        query = self._find(self._records, "hot_record")
        return {
            row[0]: RecordKey(row[1], Record(row[0], *row[2:5]), row[5])
            for listed in documents([{"id": id_} for id_ in sorted(ids)])
            for row in executor.execute(query, {"wanted": listed}).fetchall()
        }

    def in_book(self, executor: Executor, ids: Iterable[str]) -> set[str]:
        """Those of these ids that the book has."""
        query = self._find("t.id", "deduction")
        return {
            row[0]
            for listed in documents([{"id": id_} for id_ in sorted(ids)])
            for row in executor.execute(query, {"wanted": listed}).fetchall()
        }

    def _find(self, columns: str, table: str) -> TextClause:
        of = schema.hot_record if table == "hot_record" else schema.deduction
        return self._lists.text(self._lists.find(of, columns, ["id"]))

    # Batches

    def batches(
        self, executor: Executor, lane: str | None = None, *, limit: int = 1_000
    ) -> list[BatchRow]:
        """Batches that are not in the book yet, the oldest first; of one lane, or of all."""
        where = "" if lane is None else "where t.lane = :lane "
        query = text(
            f"select {self._batches} from windlass_hot_batch as t {where}"
            "order by t.created_at, t.id limit :limit"
        )
        asked: dict[str, Any] = {"limit": limit} | ({} if lane is None else {"lane": lane})
        return [_batch(row) for row in executor.execute(query, asked).fetchall()]

    def lock_batch(self, executor: Executor, id_: str) -> BatchRow | None:
        """A batch that nobody else can bring into the book meanwhile; None if it is there."""
        query = text(
            f"select {self._batches} from windlass_hot_batch as t where t.id = :id{self._lock}"
        )
        rows = executor.execute(query, {"id": id_}).fetchall()
        return _batch(rows[0]) if rows else None

    def records_of(self, executor: Executor, batch: str) -> list[Record]:
        """The records of a batch."""
        query = text(
            f"select {self._records} from windlass_hot_record as t "
            "where t.batch = :batch order by t.id"
        )
        rows = executor.execute(query, {"batch": batch}).fetchall()
        return [Record(row[0], *row[2:5]) for row in rows]

    def forget(self, executor: Executor, batch: str, *, problems: Mapping[str, str]) -> None:
        """The batch is in the book; records that the book does not take stay, with the reason."""
        for id_, why in problems.items():
            executor.execute(
                text(
                    "update windlass_hot_record set batch = '', problem = :why "
                    "where id = :id and batch = :batch"
                ),
                {"why": why, "id": id_, "batch": batch},
            )
        one = {"batch": batch}
        executor.execute(text("delete from windlass_hot_record where batch = :batch"), one)
        executor.execute(text("delete from windlass_hot_batch where id = :batch"), one)


def _batch(row: Sequence[Any]) -> BatchRow:
    id_, lane, sums, created_at = row
    return BatchRow(id_, lane, msgspec.json.decode(sums), created_at)
