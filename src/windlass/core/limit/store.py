"""Switches and rates.

Each kind has one switch row, with the operator's settings and the state of its breaker. The row
"*" pauses everything, and a row such as "group:sale" pauses the kinds of a group. A change locks
the row first, so that two changes at the same time both take effect.

A kind with a rate reserves start times; every start has its own time. The time is the database's
clock, read after the row is locked, so the clocks of the workers do not matter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Row, Select, bindparam, or_, select, update

from windlass.database.database import has_tables
from windlass.database.dialect.base import Dialect
from windlass.database.schema import rate, switch
from windlass.value import rate as model
from windlass.value.breaker import CLOSED, Breaker, BreakerState
from windlass.value.rate import Reserved
from windlass.value.task import EVERYTHING, GROUP, RESERVED

# The migration that lets a pause end by itself. Before it, no pause has an end.
TABLES = "0008"
# The migration that lets operators change the schedule of a cron.
SCHEDULES = "0013"
STATES = {state.value for state in BreakerState}
# Columns of a switch and of its breaker that are called as in the values.
SETTINGS = ("reason", "who", "since", "rate", "concurrency")
COUNTED = ("errors_in_a_row", "opened_at", "probe_at", "pause", "probe_worker")


@dataclass(frozen=True)
class Switch:
    """The settings of a kind; None means as declared. Times are in microseconds."""

    kind: str
    off: bool = False
    reason: str | None = None
    who: str | None = None
    since: int | None = None
    # When a pause ends by itself.
    until: int | None = None
    window: str | None = None
    rate: str | None = None
    concurrency: int | None = None
    # The schedule that an operator set for a cron, as JSON.
    schedule: str | None = None
    breaker: Breaker = CLOSED
    has_odd_breaker: bool = False
    # The switches of its group and of everything, if they have rows.
    above: tuple[Switch, ...] = ()

    def is_off(self, now: int) -> bool:
        """Whether this switch is off: paused, and the pause has not ended."""
        return self.off and (self.until is None or now < self.until)

    def pauses(self, now: int) -> tuple[Switch, ...]:
        """The switches that hold the kind: its own, its group's, that of everything."""
        return tuple(each for each in (self, *self.above) if each.is_off(now))


@dataclass(frozen=True)
class SwitchRows:
    """All switches, by the names of their rows."""

    rows: Mapping[str, Switch]

    def of(self, kind: str, group: str | None = None) -> Switch:
        """The switch of a kind with those above it, even if it has no row."""
        found = self.rows.get(kind, Switch(kind))
        above = (self.rows[name] for name in _above(kind, group) if name in self.rows)
        return replace(found, above=tuple(above))

    def alone(self, name: str) -> Switch:
        """The switch of a downstream, which has none above it, even if it has no row."""
        return self.rows.get(name, Switch(name))


def switches(connection: Connection) -> SwitchRows:
    rows = connection.execute(_query(connection))
    return SwitchRows({row.kind: _read(row) for row in rows})


def switch_of(connection: Connection, kind: str, group: str | None = None) -> Switch:
    """The switch of a kind with those above it, even if it has no row."""
    names = [kind, *_above(kind, group)]
    is_one = or_(*(switch.c.kind == name for name in names))
    rows = connection.execute(_query(connection).where(is_one))
    return SwitchRows({row.kind: _read(row) for row in rows}).of(kind, group)


def _above(kind: str, group: str | None) -> Collection[str]:
    # Alerts are delivered while everything is paused.
    everything = () if kind.startswith(RESERVED) else (EVERYTHING,)
    return everything if group is None else (GROUP + group, *everything)


# Columns that are not in the tables of every release, with their migrations, the last one first.
ADDED = ((SCHEDULES, switch.c.schedule), (TABLES, switch.c.paused_until))


def _without(*columns: Column[Any]) -> Select[Any]:
    return select(*(each for each in switch.c if not any(each is column for column in columns)))


# By how many of these are not there yet. They are made once: each look at the switches needs one.
QUERIES = tuple(
    _without(*(column for _, column in ADDED[:number])) for number in range(len(ADDED) + 1)
)


def _lacking(connection: Connection) -> int:
    """How many of the added columns are not there yet."""
    return sum(not has_tables(connection, migration) for migration, _ in ADDED)


def _query(connection: Connection) -> Select[Any]:
    return QUERIES[_lacking(connection)]


def change_switch(
    connection: Connection, dialect: Dialect, kind: str, decide: Callable[[Switch], Switch]
) -> Switch:
    """Change the switch of `kind` with `decide`, under a lock."""
    query = _query(connection).where(switch.c.kind == kind).with_for_update()
    row = connection.execute(query).first()
    if row is None:
        dialect.ensure(connection, switch, kind=kind)
        row = connection.execute(query).one()
    before = _read(row)
    after = decide(before)
    if after != before:
        values = _columns(after)
        for _, column in ADDED[: _lacking(connection)]:
            del values[column.name]
        connection.execute(update(switch).where(switch.c.kind == kind).values(values))
    return after


def change_breaker(
    connection: Connection, dialect: Dialect, kind: str, decide: Callable[[Breaker], Breaker]
) -> tuple[Breaker, Breaker]:
    """Change the breaker of `kind`; returns it before and after."""
    seen: list[Breaker] = []

    def move(found: Switch) -> Switch:
        seen.append(found.breaker)
        return replace(found, breaker=decide(found.breaker))

    after = change_switch(connection, dialect, kind, move)
    return seen[0], after.breaker


def forget_errors(connection: Connection, kind: str) -> None:
    """A run succeeded: reset the errors in a row. Writes only if there are any."""
    connection.execute(
        update(switch)
        .where(switch.c.kind == kind, switch.c.errors_in_a_row > 0)
        .where(switch.c.breaker == BreakerState.CLOSED.value)
        .values(errors_in_a_row=0)
    )


def _read(row: Row[Any]) -> Switch:
    return Switch(
        kind=row.kind,
        off=bool(row.off),
        until=getattr(row, "paused_until", None),
        schedule=getattr(row, "schedule", None),
        window=row.time_window,
        breaker=_breaker(row),
        has_odd_breaker=_is_odd(row),
        **{name: getattr(row, name) for name in SETTINGS},
    )


def _is_odd(row: Row[Any]) -> bool:
    """Whether the breaker's columns do not fit together, as after a change by hand."""
    return row.breaker not in STATES or bool(row.breaker and None in (row.probe_at, row.pause))


def _breaker(row: Row[Any]) -> Breaker:
    if _is_odd(row):
        return CLOSED
    counted = {name: getattr(row, name) for name in COUNTED}
    return Breaker(state=BreakerState(row.breaker), **counted)


def _columns(found: Switch) -> dict[str, object]:
    breaker = found.breaker
    return {
        "paused_until": found.until,
        "schedule": found.schedule,
        "off": int(found.off),
        "time_window": found.window,
        "breaker": breaker.state.value,
        **{name: getattr(found, name) for name in SETTINGS},
        **{name: getattr(breaker, name) for name in COUNTED},
    }


# Made once, as each reservation needs them: to make a statement costs more than to run it.
RATE = (
    select(rate.c.next_at, rate.c.per_second)
    .where(rate.c.kind == bindparam("name"))
    .with_for_update()
)
RESERVE = (
    update(rate)
    .where(rate.c.kind == bindparam("name"))
    .values(next_at=bindparam("free_from"), per_second=bindparam("speed"))
)
RESERVE_NEXT = (
    update(rate)
    .where(rate.c.kind == bindparam("name"), rate.c.next_at == bindparam("seen"))
    .where(rate.c.per_second == bindparam("speed"))
    .values(next_at=bindparam("free_from"))
)


class Measured(NamedTuple):
    """A reservation, and the local monotonic time at the database's `now`."""

    reserved: Reserved
    now: int
    monotonic: int


def reserve_starts(
    connection: Connection,
    dialect: Dialect,
    kind: str,
    *,
    per_second: float,
    length: int,
    most: int | None = None,
) -> Measured:
    """Reserve the next free start times for the caller, unless they are too far in the future."""
    row = connection.execute(RATE, {"name": kind}).first()
    if row is None:
        dialect.ensure(connection, rate, kind=kind, next_at=0, per_second=per_second)
        row = connection.execute(RATE, {"name": kind}).one()
    now, monotonic = dialect.measure(connection), time.monotonic_ns() // 1_000
    next_at: int = row.next_at
    if row.per_second != per_second:
        next_at = model.free_from(next_at, before=row.per_second, after=per_second)
    reserved = model.reserve(next_at, per_second=per_second, now=now, length=length, most=most)
    if reserved.next_at != row.next_at or row.per_second != per_second:
        values = {"name": kind, "free_from": reserved.next_at, "speed": per_second}
        connection.execute(RESERVE, values)
    return Measured(reserved, now, monotonic)


def reserve_next(
    connection: Connection, kind: str, *, last: Measured, reserved: Reserved, per_second: float
) -> bool:
    """Write a reservation that begins where the `last` one of the caller ended.

    False, and nothing is written, if others have reserved since, or changed the rate.
    """
    values = {
        "name": kind,
        "seen": last.reserved.next_at,
        "free_from": reserved.next_at,
        "speed": per_second,
    }
    return bool(connection.execute(RESERVE_NEXT, values).rowcount)
