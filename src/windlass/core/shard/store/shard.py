"""The row that says which shard this database is, and the rules for changing it.

A transaction that writes a row with a key first reads the number of the roster here and locks it; a
change of the roster waits for those transactions. So a key is always written under the roster that
holds at that time.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, func, select, text, update

from windlass.database.dialect.base import Dialect, Executor
from windlass.database.schema import shard, task, worker
from windlass.value.shard import Roster, first_number, place_of


class ShardRow(NamedTuple):
    """Which shard a database is; the roster is None while it is the only one."""

    place: int
    ring: str
    number: int
    roster: Roster | None


def get(connection: Connection) -> ShardRow:
    """The shard row of this database."""
    return _read(connection.execute(select(shard)).one())


def find(connection: Connection) -> ShardRow | None:
    """The shard row of this database; None if its tables were emptied."""
    row = connection.execute(select(shard)).first()
    return None if row is None else _read(row)


def number_of(executor: Executor, dialect: Dialect) -> int:
    """The number of the roster here, locked until this transaction ends."""
    query = text(f"select number from windlass_shard where id = 1 {dialect.hold_shared}")
    return int(executor.execute(query, {}).fetchall()[0][0])


def ring_of(executor: Executor, dialect: Dialect) -> str | None:
    """The name of the shard that a connection is on; None if it is not a shard."""
    there = executor.execute(text(dialect.has_shard), {}).fetchall()
    if not there or not there[0][0]:
        return None
    return str(executor.execute(text("select ring from windlass_shard"), {}).fetchall()[0][0])


def has_tasks(connection: Connection) -> bool:
    """Whether there are tasks."""
    return connection.scalar(select(task.c.id).limit(1)) is not None


def propose(connection: Connection, dialect: Dialect, roster: Roster) -> bool:
    """Make `roster` the next one, at the anchor; False if another change came first."""
    found = _locked(connection)
    if found.number != roster.number - 1:
        return False
    _write(connection, dialect, found, roster)
    return True


def push(connection: Connection, dialect: Dialect, roster: Roster) -> ShardRow:
    """Write `roster` here, unless there is a newer one; the row after that."""
    found = _locked(connection)
    if found.number >= roster.number:
        return found
    _write(connection, dialect, found, roster)
    return ShardRow(roster.peers[found.ring].place, found.ring, roster.number, roster)


def rename(connection: Connection, ring: str) -> None:
    """Give a database that is a copy of another one, named `ring`, a new name."""
    connection.execute(update(shard).where(shard.c.ring == ring).values(ring=secrets.token_hex(8)))


class Journal(msgspec.Struct, frozen=True):
    """Rows that are moving to another shard: their ids here, and there."""

    number: int
    to: str
    ids: dict[int, int]
    # Whether they have left. Rows in `stay` have not, and their copies are deleted.
    has_left: bool = False
    stay: tuple[int, ...] = ()


class Moving(msgspec.Struct, frozen=True):
    """What moves from this shard and to it.

    `last` is the number of this shard's last journal; `arrived` has, for each other shard, the
    number of its last journal whose rows have arrived. So a late mover changes nothing.
    """

    last: int = 0
    journal: Journal | None = None
    arrived: dict[str, int] = {}


def moving(connection: Connection) -> Moving:
    """What moves, locked until this transaction ends."""
    row = connection.execute(select(shard.c.moving).with_for_update()).one()
    return Moving() if row.moving is None else msgspec.json.decode(row.moving, type=Moving)


def keep_moving(connection: Connection, kept: Moving) -> None:
    """Note what moves."""
    connection.execute(update(shard).values(moving=msgspec.json.encode(kept).decode()))


class Load(NamedTuple):
    """How many rows and workers a shard has; counted up to a bound."""

    waiting: int
    running: int
    ended: int
    # Rows in a journal that was not finished.
    moving: int
    workers: int


def load(connection: Connection, *, now: int, most: int) -> Load:
    """Count the rows and live workers of this shard."""

    def count(status: int, *where: ColumnElement[bool], order: Sequence[str]) -> int:
        few = select(task.c.kind).where(task.c.status == status, *where)
        few = few.order_by(*(task.c[name] for name in order)).limit(most + 1)
        return connection.execute(select(func.count()).select_from(few.subquery())).scalar_one()

    # In the order of the index of such rows: counting must not read other rows.
    def due(status: int) -> int:
        return count(status, task.c.due_at.is_not(None), order=("kind", "priority", "due_at"))

    def undue(status: int) -> int:
        return count(status, task.c.due_at.is_(None), order=("kind", "id"))

    alive = worker.c.left_at.is_(None) & (worker.c.lease_until >= now)
    workers = connection.execute(select(func.count()).select_from(worker).where(alive)).scalar_one()
    found = connection.execute(select(shard.c.moving)).one().moving
    journal = None if found is None else msgspec.json.decode(found, type=Moving).journal
    moving = 0 if journal is None else len(journal.ids)
    return Load(
        waiting=min(due(0) + undue(4) + due(5), most + 1),
        # A flow run waits for its nodes and has no due time.
        running=min(due(1) + undue(1), most + 1),
        ended=min(undue(2) + undue(3) + undue(6), most + 1),
        moving=moving,
        workers=workers,
    )


def _locked(connection: Connection) -> ShardRow:
    return _read(connection.execute(select(shard).with_for_update()).one())


def _read(row: Row[Any]) -> ShardRow:
    roster = None if row.roster is None else msgspec.json.decode(row.roster, type=Roster)
    return ShardRow(row.place, row.ring, row.number, roster)


def _write(connection: Connection, dialect: Dialect, found: ShardRow, roster: Roster) -> None:
    place = roster.peers[found.ring].place
    if place_of(dialect.next_number(connection)) != place:
        dialect.begin_numbers(connection, first_number(place))
    connection.execute(
        update(shard).values(
            place=place,
            number=roster.number,
            roster=msgspec.json.encode(roster).decode(),
            draining=int(roster.is_draining(found.ring)),
        )
    )
