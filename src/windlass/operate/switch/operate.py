"""Switches: what is set for a kind and what holds; pause, resume and set it while it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from msgspec import UNSET, UnsetType

from windlass.clock import Clock
from windlass.core.alert.model import Trouble
from windlass.core.alert.store import note
from windlass.core.limit import store as limit_store
from windlass.core.limit.store import Switch
from windlass.core.limit.switch import NONE, held_back, setting_of
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind, Registry
from windlass.database.connection import Connection
from windlass.errors import BadInput
from windlass.value.breaker import CLOSED
from windlass.value.downstream import Downstream
from windlass.value.outcome import LONGEST_REMARK, storable
from windlass.value.rate import parse_rate, rate_text
from windlass.value.window import parse_window
from windlass.view.action import whoami
from windlass.view.field import Moment

MOST_AT_ONCE = 100_000


@dataclass(frozen=True)
class SettingView:
    """What holds now: what is set, or else what the kind declares; None is no limit."""

    rate: str | None
    window: str | None
    concurrency: int | None
    problem: str | None

    def __str__(self) -> str:
        rate = "no rate" if self.rate is None else f"rate {self.rate}"
        window = "no window" if self.window is None else f"window {self.window}"
        at_once = "no limit" if self.concurrency is None else f"{self.concurrency:,} at once"
        return f"{rate}, {window}, {at_once}"


@dataclass(frozen=True)
class SwitchView:
    """What is set for a kind; None is as it declares. `held_back` says why it may not run."""

    kind: str
    off: bool
    reason: str | None
    who: str | None
    since: Moment | None
    window: str | None
    rate: str | None
    concurrency: int | None
    breaker: str
    has_breaker: bool
    errors_in_a_row: int
    opened_at: Moment | None
    probe_at: Moment | None
    held_back: str | None
    holds: SettingView


def listing(fleet: Fleet, registry: Registry, clock: Clock) -> list[SwitchView]:
    """The switches of all declared kinds."""
    found, now = _rows(fleet), clock.now()
    return [_view(kind, found, now) for _, kind in sorted(registry.kinds.items())]


def show(fleet: Fleet, registry: Registry, clock: Clock, *, kind: str) -> SwitchView:
    """The switch of one kind, or of one downstream."""
    return _view(registry.limited(kind), _rows(fleet), clock.now())


def pause(shard: Shard, kind: str, *, reason: str, who: str | None) -> None:
    """Let nothing of a kind start until it is resumed; what runs goes on to its end."""
    text, since = storable(str(reason))[:LONGEST_REMARK], shard.clock.now()
    name = (who or whoami())[:255]
    set_(shard, kind, changes={"off": True, "reason": text or None, "who": name, "since": since})


def resume(shard: Shard, kind: str, *, who: str | None) -> None:
    """Let a kind run again; a breaker that is open closes, and that is told."""
    running = {"off": False, "reason": None, "who": None, "since": None}
    set_(shard, kind, changes={**running, "breaker": CLOSED}, who=who)


def close_breaker(shard: Shard, kind: str, *, who: str | None) -> None:
    """Close the breaker of a kind if it is open, and tell that; nothing else changes."""
    set_(shard, kind, changes={"breaker": CLOSED}, who=who)


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


def set_(shard: Shard, kind: str, *, changes: dict[str, Any], who: str | None = None) -> None:
    """Change what holds for a kind. None goes back to what it declares, "none" takes it away."""

    def work(connection: Connection) -> None:
        before: list[Switch] = []

        def decide(found: Switch) -> Switch:
            before.append(found)
            return replace(found, **changes)

        after = limit_store.change_switch(connection, shard.database.dialect, kind, decide)
        if before[0].breaker.is_open and not after.breaker.is_open:
            number, now = shard.numbers.take(inside=connection)[0], shard.clock.now()
            text = f"breaker of {kind!r} closed by {(who or whoami())[:255]}"
            note(connection, number, Trouble("breaker closed", kind, text), now=now)

    shard.database.write(work)


def _rows(fleet: Fleet) -> dict[str, Switch]:
    """All switches, by kind, as the first shard that answers has them."""
    return fleet.ask(lambda shard: shard.database.read(limit_store.switches)).values[0]


def _view(kind: Kind | Downstream, rows: dict[str, Switch], now: int) -> SwitchView:
    row = rows.get(kind.name, Switch(kind.name))
    setting, breaker = setting_of(kind, row), row.breaker
    return SwitchView(
        kind=kind.name,
        off=row.off,
        reason=row.reason,
        who=row.who,
        since=row.since,
        window=row.window,
        rate=row.rate,
        concurrency=row.concurrency,
        breaker=str(breaker.state),
        has_breaker=kind.breaker is not None,
        errors_in_a_row=breaker.errors_in_a_row,
        opened_at=breaker.opened_at,
        probe_at=breaker.probe_at,
        held_back=held_back(kind, row, now=now, others=rows),
        holds=SettingView(
            rate=None if setting.rate is None else rate_text(setting.rate),
            window=None if setting.window is None else setting.window.text,
            concurrency=setting.concurrency,
            problem=setting.problem,
        ),
    )


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
