"""Switches: one row per kind, with the operator's settings and the state of the breaker.

A change locks the row first, so that two changes at the same time both take effect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Row, select, update

from windlass.database.dialect.base import Dialect
from windlass.database.schema import switch
from windlass.value.breaker import CLOSED, Breaker, BreakerState

STATES = {state.value for state in BreakerState}


@dataclass(frozen=True)
class Switch:
    """The settings of a kind; None means as declared. Times are in microseconds."""

    kind: str
    off: bool = False
    reason: str | None = None
    who: str | None = None
    since: int | None = None
    window: str | None = None
    rate: str | None = None
    concurrency: int | None = None
    breaker: Breaker = CLOSED
    has_odd_breaker: bool = False


def listing(connection: Connection) -> dict[str, Switch]:
    return {row.kind: _read(row) for row in connection.execute(select(switch))}


def get(connection: Connection, kind: str) -> Switch:
    """The switch of a kind, even if it has no row."""
    row = connection.execute(select(switch).where(switch.c.kind == kind)).first()
    return Switch(kind) if row is None else _read(row)


def change(
    connection: Connection, dialect: Dialect, kind: str, decide: Callable[[Switch], Switch]
) -> Switch:
    """Change the switch of `kind` with `decide`, under a lock."""
    query = select(switch).where(switch.c.kind == kind).with_for_update()
    row = connection.execute(query).first()
    if row is None:
        dialect.ensure(connection, switch, kind=kind)
        row = connection.execute(query).one()
    before = _read(row)
    after = decide(before)
    if after != before:
        connection.execute(update(switch).where(switch.c.kind == kind).values(_columns(after)))
    return after


def change_breaker(
    connection: Connection, dialect: Dialect, kind: str, decide: Callable[[Breaker], Breaker]
) -> tuple[Breaker, Breaker]:
    """Change the breaker of `kind`; returns it before and after."""
    seen: list[Breaker] = []

    def move(found: Switch) -> Switch:
        seen.append(found.breaker)
        return replace(found, breaker=decide(found.breaker))

    after = change(connection, dialect, kind, move)
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
        reason=row.reason,
        who=row.who,
        since=row.since,
        window=row.time_window,
        rate=row.rate,
        concurrency=row.concurrency,
        breaker=_breaker(row),
        has_odd_breaker=_is_odd(row),
    )


def _is_odd(row: Row[Any]) -> bool:
    """Whether the breaker's columns do not fit together, as after a change by hand."""
    return row.breaker not in STATES or bool(row.breaker and None in (row.probe_at, row.pause))


def _breaker(row: Row[Any]) -> Breaker:
    if _is_odd(row):
        return CLOSED
    return Breaker(
        state=BreakerState(row.breaker),
        errors_in_a_row=row.errors_in_a_row,
        opened_at=row.opened_at,
        probe_at=row.probe_at,
        pause=row.pause,
        probe_worker=row.probe_worker,
    )


def _columns(found: Switch) -> dict[str, object]:
    breaker = found.breaker
    return {
        "off": int(found.off),
        "reason": found.reason,
        "who": found.who,
        "since": found.since,
        "time_window": found.window,
        "rate": found.rate,
        "concurrency": found.concurrency,
        "breaker": breaker.state.value,
        "errors_in_a_row": breaker.errors_in_a_row,
        "opened_at": breaker.opened_at,
        "probe_at": breaker.probe_at,
        "pause": breaker.pause,
        "probe_worker": breaker.probe_worker,
    }
