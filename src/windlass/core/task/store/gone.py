"""Traces of deleted rows: written where rows are deleted, and read when an answer was lost.

Only a call whose commit was not answered reads them. It then repeats its insert under the same ids,
and must know whether the first insert counted although its rows are gone. The order matters: insert
first, then look for traces. The insert waits for a first try that is still under way in the server,
and a row that was deleted before it has left its trace.

Nothing here trusts a clock. Before traces are deleted, one row says up to which id some may be
missing. So a call that comes too late is told that nobody knows, and does not count twice.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, and_, delete, select, text, update

from windlass.database.dialect.base import Dialect, Executor
from windlass.database.gone import KEEP_TRACES, Gone, is_any_forgotten, is_any_in, traces_of
from windlass.database.schema import gone
from windlass.value.shard import numbers_of, place_of

FIND = text("""
select first_id, last_id, gone_at, ids from windlass_gone
where last_id >= :lowest and first_id <= :highest
""")


class Forgotten(Exception):
    """Whether rows were written is not known any more."""


def remember(executor: Executor, dialect: Dialect, ids: Collection[int], *, now: int) -> None:
    """Leave traces of rows that this transaction deletes."""
    if ids and dialect.keeps_traces:
        dialect.remember(executor, traces_of(ids, now=now))


def is_any_gone(executor: Executor, ids: Collection[int]) -> bool:
    """Whether a row with one of these ids was written and deleted; raises Forgotten."""
    asked = {"lowest": min(ids), "highest": max(ids)}
    traces = [Gone(*row) for row in executor.execute(FIND, asked).fetchall()]
    if any(is_any_in(ids, trace) for trace in traces):
        return True
    if any(is_any_forgotten(ids, trace) for trace in traces):
        raise Forgotten
    return False


def prune(connection: Connection, *, now: int, limit: int) -> int:
    """Delete up to `limit` old traces; how many.

    The one with the highest id of each shard stays: all ids up to it may be forgotten. Others may
    do the same at the same time.
    """
    # Without a condition on the time, which would read all traces to find that none is old.
    first = select(gone.c.id, gone.c.last_id, gone.c.gone_at).where(gone.c.ids.is_not(None))
    rows = [
        (number, last_id)
        for number, last_id, gone_at in connection.execute(first.order_by(gone.c.id).limit(limit))
        if gone_at <= now - KEEP_TRACES
    ]
    if not rows:
        return 0
    last: dict[int, tuple[int, int]] = {}
    for number, last_id in rows:
        place = place_of(last_id)
        last[place] = max(last.get(place, (last_id, number)), (last_id, number))
    stay = {number for _, number in last.values()}
    old = [number for number, _ in rows if number not in stay]
    connection.execute(delete(gone).where(gone.c.id.in_(old)))
    for place, (last_id, number) in last.items():
        lowest = numbers_of(place).start
        stays = update(gone).where(gone.c.id == number).values(first_id=lowest, ids=None)
        connection.execute(stays)
        lower = and_(gone.c.first_id == lowest, gone.c.last_id < last_id, gone.c.ids.is_(None))
        connection.execute(delete(gone).where(lower))
    return len(rows)
