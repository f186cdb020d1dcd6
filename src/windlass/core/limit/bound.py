"""What bounds a kind in all: its own settings, and what its downstreams leave to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from windlass.core.limit import store as limit_store
from windlass.core.limit.permit import store as permit_store
from windlass.core.limit.store import SwitchRows
from windlass.core.limit.switch import LimitRows, Setting, least, setting_of
from windlass.core.task.downstream import Downstream
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.database import has_tables


def limits_now(connection: Connection) -> LimitRows:
    """The switches, and what the limits of the fleet are lowered to, in one database."""
    has_limits = has_tables(connection, permit_store.MIGRATION)
    lowered = permit_store.lowered(connection) if has_limits else {}
    return LimitRows(limit_store.switches(connection), lowered)


def bounded(
    kind: Kind, rows: LimitRows, *, now: int, left: Mapping[str, float | None] | None = None
) -> Setting:
    """The settings of a kind with what holds for its downstreams.

    `left` has the part of a downstream's rate that other kinds leave to this one; without it, the
    kind could use the whole. Of two windows the one that is open for less time counts.
    """
    setting = setting_of(kind, rows.switches.of(kind.name, kind.group), now=now)
    called = [downstream_setting(each, rows, now=now) for each in kind.downstreams]
    rates = [
        least(of.rate, (left or {}).get(each.name))
        for each, of in zip(kind.downstreams, called, strict=True)
        if of.rate is not None
    ]
    windows = [each for each in (setting, *called) if each.window is not None]
    shortest = min(windows, key=lambda each: each.share, default=setting)
    return replace(
        setting,
        pauses=tuple(pause for each in (setting, *called) for pause in each.pauses),
        window=shortest.window,
        most_rate=least(*rates),
        most_at_once=least(kind.total_concurrency, *(each.concurrency for each in called)),
    )


def is_broken(kind: Kind, switches: SwitchRows) -> bool:
    """Whether the breaker of a kind, or of one of its downstreams, is open."""
    own = switches.of(kind.name, kind.group).breaker
    if kind.breaker is not None and own.is_open:
        return True
    called = (each for each in kind.downstreams if each.breaker is not None)
    return any(switches.alone(each.name).breaker.is_open for each in called)


def downstream_setting(downstream: Downstream, rows: LimitRows, *, now: int) -> Setting:
    """The settings of a downstream as they are now."""
    if downstream.adapt and downstream.name not in rows.lowered:
        # Nothing is known of it here: its home is another shard, or it has not been called yet.
        return setting_of(downstream, rows.switches.alone(downstream.name), now=now)
    return rows.of(downstream, at=now)
