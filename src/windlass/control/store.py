"""Control runs: one row for each name and partition, and the tries that ended.

Each change locks the row first, so of several starts at the same time one wins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Table, and_, delete, insert, or_, select, update

from windlass.control.model.argument import ControlKey
from windlass.control.model.control import Control, Decision, LoopProgress, RunStatus
from windlass.control.model.step import StepName, Steps, decode_steps, encode_steps
from windlass.database.dialect.base import Dialect
from windlass.database.schema import control, control_run

Values = dict[str, Any]

COLUMNS = tuple(part.name for part in fields(Control) if part.name not in ("name", "partition"))
KEPT_PER_NAME = 100
PRUNED_AT_ONCE = 1_000


def get(connection: Connection, key: ControlKey) -> Control | None:
    """The row of a run, if it was ever started."""
    row = connection.execute(select(control).where(*_at(key))).first()
    return None if row is None else _read(row)


def listing(
    connection: Connection,
    *,
    name: str | None = None,
    statuses: Collection[RunStatus] = tuple(RunStatus),
    after: ControlKey | None = None,
    limit: int | None = None,
) -> list[Control]:
    """Runs by name and partition, or the partitions of one name; those after a key."""
    query = select(control).order_by(control.c.name, control.c.partition_id).limit(limit)
    if name is not None:
        query = query.where(control.c.name == name)
    if len(statuses) < len(RunStatus):
        query = query.where(control.c.status.in_(statuses))
    if after is not None:
        same = and_(control.c.name == after.name, control.c.partition_id > after.partition)
        query = query.where(control.c.name >= after.name, or_(control.c.name > after.name, same))
    return [_read(row) for row in connection.execute(query)]


def history(
    connection: Connection, key: ControlKey, *, limit: int = KEPT_PER_NAME
) -> list[Control]:
    """The tries of a run that ended, newest first."""
    rows = connection.execute(
        select(control_run)
        .where(*_at(key, control_run))
        .order_by(control_run.c.id.desc())
        .limit(limit)
    )
    return [_read(row) for row in rows]


def has_ended(connection: Connection, key: ControlKey, batch: int | None) -> bool:
    """Whether the try with that batch is in the history."""
    query = select(control_run.c.id).where(*_at(key, control_run), control_run.c.batch == batch)
    return connection.scalar(query.limit(1)) is not None


def locked(connection: Connection, key: ControlKey) -> Control | None:
    """The row of a run, which only this transaction may change now."""
    row = connection.execute(select(control).where(*_at(key)).with_for_update()).first()
    return None if row is None else _read(row)


def created(connection: Connection, dialect: Dialect, key: ControlKey) -> Control:
    """The row of a run that was never started, locked."""
    ready = {"status": RunStatus.READY, "tries": 0}
    dialect.ensure(connection, control, name=key.name, partition_id=key.partition, **ready)
    found = locked(connection, key)
    assert found is not None
    return found


def write(connection: Connection, before: Control | None, decision: Decision) -> Decision:
    """Make what was decided about a locked row true."""
    after = decision.after
    if before is None or after is None:
        return decision
    changed = [part for part in COLUMNS if getattr(before, part) != getattr(after, part)]
    if changed:
        values = _columns(after, changed)
        connection.execute(update(control).where(*_at(after.key)).values(values))
    if decision.ended is not None:
        _remember(connection, decision.ended)
    return decision


def _remember(connection: Connection, ended: Control) -> None:
    """Append a try to the history, and delete the oldest tries of its name."""
    kept = _columns(ended, [part for part in COLUMNS if part in control_run.columns])
    key = {"name": ended.name, "partition_id": ended.partition}
    connection.execute(insert(control_run).values(kept | key))
    old = connection.scalars(
        select(control_run.c.id)
        .where(control_run.c.name == ended.name)
        .order_by(control_run.c.id.desc())
        .offset(KEPT_PER_NAME)
        .limit(PRUNED_AT_ONCE)
    ).all()
    if old:
        connection.execute(delete(control_run).where(control_run.c.id.in_(sorted(old))))


def _at(key: ControlKey, table: Table = control) -> tuple[Any, Any]:
    return table.c.name == key.name, table.c.partition_id == key.partition


def _read(row: Row[Any]) -> Control:
    """A row of either table; the history has neither expiry nor progress."""
    values: Values = {part: getattr(row, part, None) for part in COLUMNS}
    steps, done = decode_steps(row.steps), getattr(row, "progress_done", None)
    values["status"] = RunStatus(row.status)
    values["step"], values["steps"] = _step(row.step, steps), steps
    values["data"] = None if row.data is None else msgspec.json.decode(row.data)
    values["progress"] = None if done is None else LoopProgress(done, row.progress_total)
    return Control(row.name, row.partition_id, **values)


def _step(text: str | None, steps: Steps) -> StepName | None:
    """The step of a row, as a number if it was one."""
    named = [step for step in steps if str(step.step) == text]
    return max(named, key=lambda step: step.began_at).step if named else text


def _columns(run: Control, parts: Iterable[str]) -> dict[str, Any]:
    """Those parts of a run as columns."""
    columns: dict[str, Any] = {}
    for part in parts:
        value = getattr(run, part)
        match part:
            case "status":
                value = int(value)
            case "step":
                value = None if value is None else str(value)
            case "steps":
                value = encode_steps(value, what=f"control {run.key}")
            case "data":
                value = None if value is None else msgspec.json.encode(value).decode()
            case "progress":
                columns["progress_done"] = None if value is None else value.done
                columns["progress_total"] = None if value is None else value.total
                continue
        columns[part] = value
    return columns


# Moving to another shard


def places(connection: Connection) -> list[tuple[ControlKey, RunStatus]]:
    """All control runs here, and their states."""
    rows = connection.execute(select(control.c.name, control.c.partition_id, control.c.status))
    return [(ControlKey(name, partition), RunStatus(status)) for name, partition, status in rows]


def copy(connection: Connection, place: ControlKey) -> tuple[Values, list[Values]] | None:
    """The row of a run that no process runs, and its history."""
    row = connection.execute(select(control).where(*_at(place))).mappings().first()
    if row is None or row["status"] == RunStatus.RUNNING:
        return None
    tries = connection.execute(
        select(control_run).where(*_at(place, control_run)).order_by(control_run.c.id)
    ).mappings()
    history = [{name: value for name, value in each.items() if name != "id"} for each in tries]
    return dict(row), history


def put_copy(connection: Connection, row: Values, history: list[Values]) -> bool:
    """Write a copy of a run; nobody looks at it until the run has left where it was.

    False if one of that name is running here. One that was started later than the row stays.
    """
    place = ControlKey(row["name"], row["partition_id"])
    found = locked(connection, place)
    if found is not None and found.status is RunStatus.RUNNING:
        return False
    if found is not None and (found.batch or 0) > (row["batch"] or 0):
        return True
    _delete(connection, place)
    connection.execute(insert(control).values(row))
    if history:
        connection.execute(insert(control_run), history)
    return True


def release(connection: Connection, row: Values) -> bool:
    """Delete a run that is still as it was copied; whether it was."""
    place = ControlKey(row["name"], row["partition_id"])
    found = connection.execute(select(control).where(*_at(place)).with_for_update()).mappings()
    if [dict(each) for each in found] != [row]:
        return False
    _delete(connection, place)
    return True


def _delete(connection: Connection, place: ControlKey) -> None:
    for table in (control, control_run):
        connection.execute(delete(table).where(*_at(place, table)))
