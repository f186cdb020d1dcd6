"""Switches: pause and resume a kind, and set its rate, window and concurrency while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from msgspec import UNSET, UnsetType

from windlass.core.alert.store import write_alert
from windlass.core.limit.store import switch
from windlass.core.limit.store.switch import Switch
from windlass.core.limit.switch import NONE
from windlass.core.shard.shard import Shard
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.errors import BadInput
from windlass.value.breaker import CLOSED
from windlass.value.outcome import LONGEST_REMARK, storable
from windlass.value.rate import parse_rate
from windlass.value.window import parse_window
from windlass.view.identity import whoami

MOST_AT_ONCE = 100_000


def pause(shard: Shard, kind: str, *, reason: str, who: str | None) -> Switch:
    """Let nothing of a kind start until it is resumed; what runs goes on to its end."""
    since = shard.clock.now()
    name = (who or whoami())[:255]
    text = storable(str(reason))[:LONGEST_REMARK]

    def decide(found: Switch) -> Switch:
        return replace(found, off=True, reason=text or None, who=name, since=since)

    return _change(shard.database, kind, decide)


def resume(shard: Shard, kind: str, *, who: str | None) -> Switch:
    """Let a kind run again; a breaker that is open closes, and that is told."""

    def decide(found: Switch) -> Switch:
        return replace(found, off=False, reason=None, who=None, since=None, breaker=CLOSED)

    return _closing(shard, kind, decide, who=who)


def close_breaker(shard: Shard, kind: str, *, who: str | None) -> Switch:
    """Close the breaker of a kind if it is open, and tell that; nothing else changes."""
    return _closing(shard, kind, lambda found: replace(found, breaker=CLOSED), who=who)


def _closing(
    shard: Shard, kind: str, decide: Callable[[Switch], Switch], *, who: str | None
) -> Switch:
    text = f"breaker of {kind!r} closed by {(who or whoami())[:255]}"
    before: list[Switch] = []

    def seen(found: Switch) -> Switch:
        before.append(found)
        return decide(found)

    def work(connection: Connection) -> Switch:
        before.clear()
        after = switch.change(connection, shard.database.dialect, kind, seen)
        if before[0].breaker.is_open:
            number, now = shard.numbers.take(inside=connection)[0], shard.clock.now()
            write_alert(connection, number, what="breaker closed", kind=kind, text=text, now=now)
        return after

    return shard.database.write(work)


def changes(
    kind: str,
    *,
    rate: str | UnsetType | None = UNSET,
    window: str | UnsetType | None = UNSET,
    concurrency: int | UnsetType | None = UNSET,
) -> dict[str, Any]:
    """What to set for a kind, checked."""
    changes: dict[str, Any] = {}
    what = f"kind {kind!r}"
    if not isinstance(rate, UnsetType):
        if rate not in (None, NONE):
            parse_rate(rate, what=f"{what}: rate")
        changes["rate"] = rate
    if not isinstance(window, UnsetType):
        if window not in (None, NONE):
            window = parse_window(window, what=f"{what}: window").text
        changes["window"] = window
    if not isinstance(concurrency, UnsetType):
        changes["concurrency"] = _checked(concurrency, what)
    if not changes:
        raise BadInput(f"{what}: nothing to set; give rate=, window= or concurrency=")
    return changes


def set_(shard: Shard, kind: str, *, changes: dict[str, Any]) -> Switch:
    """Change what holds for a kind. None goes back to what it declares, "none" takes it away."""
    return _change(shard.database, kind, lambda found: replace(found, **changes))


def _change(database: Database, kind: str, decide: Callable[[Switch], Switch]) -> Switch:
    def work(connection: Connection) -> Switch:
        return switch.change(connection, database.dialect, kind, decide)

    return database.write(work)


def _checked(concurrency: object, what: str) -> int | None:
    if concurrency is None:
        return None
    if (
        isinstance(concurrency, bool)
        or not isinstance(concurrency, int)
        or not 1 <= concurrency <= MOST_AT_ONCE
    ):
        raise BadInput(f"{what}: concurrency={concurrency!r} is not a number from 1 on")
    return concurrency
