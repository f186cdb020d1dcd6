"""The rows of downstreams that adapt: their state, what was seen since, and a history."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from sqlalchemy import Connection, select, update

from windlass.clock import SECOND
from windlass.database.database import has_tables
from windlass.database.dialect.base import Dialect
from windlass.database.schema import adapt as adapt_table
from windlass.database.schema import limit
from windlass.value.load.adapt import AdaptPoint, AdaptState, Ceilings, Interval, adapt, begin

MIGRATION = "0010"
SHORTEST = SECOND // 2
# An interval that is longer says little: workers were idle, or away.
LONGEST = 5 * SECOND
# A point of the history every few seconds, and how many are kept.
POINT_EVERY = 5 * SECOND
POINTS = 240

_STATE = msgspec.json.Decoder(AdaptState)
_SEEN = msgspec.json.Decoder(Interval)
_HISTORY = msgspec.json.Decoder(list[AdaptPoint])


def add(
    connection: Connection,
    dialect: Dialect,
    name: str,
    mine: Interval,
    bounds: Callable[[Connection], Ceilings],
) -> AdaptState:
    """Add what a worker saw; if the interval is over, decide for the whole fleet."""
    table = adapt_table.c
    query = select(table.since, table.state, table.seen, table.history).where(table.name == name)
    row = connection.execute(query.with_for_update()).first()
    now = dialect.measure(connection)
    if row is None:
        first = {"state": _text(begin(bounds(connection))), "seen": "{}", "history": "[]"}
        dialect.ensure(connection, adapt_table, name=name, since=now, **first)
        row = connection.execute(query.with_for_update()).one()
    state, seen = _STATE.decode(row.state), _SEEN.decode(row.seen).plus(mine)
    values: dict[str, object] = {"seen": _text(seen)}
    elapsed = now - row.since
    if not 0 <= elapsed <= LONGEST:
        values = {"seen": _text(mine), "since": now}
    elif elapsed >= SHORTEST:
        seconds = elapsed / SECOND
        state = adapt(state, bounds(connection), seen, seconds=seconds, now=now)
        history = _HISTORY.decode(row.history)
        if not history or now - history[-1].at >= POINT_EVERY:
            history.append(AdaptPoint.of(state, seen, seconds=seconds, at=now))
        values = {
            "seen": "{}",
            "since": now,
            "state": _text(state),
            "history": _text(history[-POINTS:]),
        }
        _obey(connection, dialect, name, state)
    connection.execute(update(adapt_table).where(table.name == name).values(values))
    return state


def history(connection: Connection, name: str) -> list[AdaptPoint]:
    """How the limits of a downstream went, oldest first."""
    if not has_tables(connection, MIGRATION):
        return []
    found = connection.scalar(select(adapt_table.c.history).where(adapt_table.c.name == name))
    return [] if found is None else _HISTORY.decode(found)


def _obey(connection: Connection, dialect: Dialect, name: str, state: AdaptState) -> None:
    """Let all workers keep to it: they read this row twice a second."""
    dialect.ensure(connection, limit, name=name)
    connection.execute(
        update(limit)
        .where(limit.c.name == name)
        .values(rate_now=state.rate, concurrency_now=state.concurrency)
    )


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
