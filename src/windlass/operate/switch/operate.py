"""Switches: what is set for kinds, groups and everything, and what holds; and changing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from windlass.clock import Clock
from windlass.core.alert.model import Trouble
from windlass.core.alert.store import note
from windlass.core.limit import store as limit_store
from windlass.core.limit.store import Switch, SwitchRows
from windlass.core.limit.switch import NONE, clock_time, held_back, paused_text, setting_of
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.downstream import Downstream
from windlass.core.task.kind import Kind, Registry
from windlass.database.connection import Connection
from windlass.errors import BadInput, Unknown
from windlass.operate.switch.ahead import WindowAhead, ahead_of
from windlass.value.breaker import CLOSED
from windlass.value.calendar.window import Window, parse_window
from windlass.value.outcome import LONGEST_REMARK, storable
from windlass.value.rate import parse_rate, rate_text
from windlass.value.task import EVERYTHING, GROUP
from windlass.view.action import whoami
from windlass.view.field import Moment, exposed
from windlass.view.said import Spoken, as_said

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
    group: str | None
    off: bool
    reason: str | None
    who: str | None
    since: Moment | None
    until: Moment | None
    # Which switches hold it: its own by the name of the kind, "group:sale", or "*" of everything.
    paused_by: list[str]
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
    # The days ahead in which its window is open; None without a window.
    ahead: WindowAhead | None

    @property
    @exposed
    def held(self) -> Spoken | None:
        """`held_back`, with its code and values for other languages."""
        return as_said(self.held_back)


@dataclass(frozen=True)
class PauseView:
    """Whether everything, or a group, is paused; `group` is None for everything."""

    # The name of its row: "*", or "group:" and the group.
    name: str
    group: str | None
    kinds: list[str]
    off: bool
    reason: str | None
    who: str | None
    since: Moment | None
    until: Moment | None
    held_back: str | None

    @property
    @exposed
    def held(self) -> Spoken | None:
        """`held_back`, with its code and values for other languages."""
        return as_said(self.held_back)


class SwitchTarget(NamedTuple):
    """What an operator pauses or resumes: the name of its row, and as people say it."""

    row: str
    shown: str


def target_of(registry: Registry, kind: str | None, group: str | None) -> SwitchTarget:
    """A kind, a group, or everything if neither is given."""
    if kind is not None and group is not None:
        raise BadInput(
            f"kind {kind!r} and group {group!r} were given together; give one of them, "
            "or neither for everything"
        )
    if group is not None:
        if group not in registry.groups:
            known = ", ".join(registry.groups) or 'none; give kinds the option group="sale"'
            raise Unknown(f"group {group!r} is not known; groups: {known}")
        return SwitchTarget(GROUP + group, f"group {group!r}")
    if kind is None:
        return SwitchTarget(EVERYTHING, "everything")
    found = registry.limited(kind)
    what = "kind" if isinstance(found, Kind) else "downstream"
    return SwitchTarget(found.name, f"{what} {kind!r}")


def paused_target(
    fleet: Fleet, registry: Registry, kind: str | None, group: str | None
) -> SwitchTarget:
    """What may be resumed: also a group that no kind is in any more, if it is paused."""
    try:
        return target_of(registry, kind, group)
    except Unknown:
        row = "" if group is None else GROUP + group
        if row not in _rows(fleet).rows:
            raise
        return SwitchTarget(row, f"group {group!r}")


def pauses(fleet: Fleet, registry: Registry, clock: Clock) -> list[PauseView]:
    """Everything first, then each group: those that are declared, and others that are paused."""
    rows, now = _rows(fleet).rows, clock.now()
    groups = dict(registry.groups)
    for name, row in rows.items():
        if name.startswith(GROUP) and row.is_off(now):
            groups.setdefault(name.removeprefix(GROUP), [])
    found = [_pause_view(EVERYTHING, None, sorted(registry.kinds), rows, now)]
    for group, kinds in sorted(groups.items()):
        found.append(_pause_view(GROUP + group, group, kinds, rows, now))
    return found


def paused_until(fleet: Fleet, clock: Clock, row: str) -> str | None:
    """When the pause of a row ends, for people; None if it has no end."""
    until, now = _rows(fleet).of(row).until, clock.now()
    return None if until is None else clock_time(until, now)


def still_paused(fleet: Fleet, clock: Clock) -> list[str]:
    """What is paused now, as people say it; kinds first."""
    now = clock.now()
    names = sorted(name for name, row in _rows(fleet).rows.items() if row.is_off(now))
    names.sort(key=lambda name: (name == EVERYTHING, name.startswith(GROUP)))
    return [_shown(name) for name in names]


def _shown(row: str) -> str:
    if row == EVERYTHING:
        return "everything"
    return f"group {row.removeprefix(GROUP)}" if row.startswith(GROUP) else row


def _pause_view(
    name: str, group: str | None, kinds: list[str], rows: Mapping[str, Switch], now: int
) -> PauseView:
    row = rows.get(name, Switch(name))
    off = row.is_off(now)
    return PauseView(
        name=name,
        group=group,
        kinds=kinds,
        off=off,
        reason=row.reason if off else None,
        who=row.who if off else None,
        since=row.since if off else None,
        until=row.until if off else None,
        held_back=paused_text(row, now=now) if off else None,
    )


def listing(fleet: Fleet, registry: Registry, clock: Clock) -> list[SwitchView]:
    """The switches of all declared kinds."""
    found, now = _rows(fleet), clock.now()
    return [_view(kind, found, now) for _, kind in sorted(registry.kinds.items())]


def show(fleet: Fleet, registry: Registry, clock: Clock, *, kind: str) -> SwitchView:
    """The switch of one kind, or of one downstream."""
    return _view(registry.limited(kind), _rows(fleet), clock.now())


def pause(
    shard: Shard, row: str, *, reason: str, who: str | None, until: int | None = None
) -> None:
    """Let nothing start that a switch holds, until it is resumed; what runs goes on to its end."""
    if until is not None:
        shard.database.schema.need(limit_store.TABLES, "a pause with an end")
    text, since = storable(str(reason))[:LONGEST_REMARK], shard.clock.now()
    name = (who or whoami())[:255]
    changes = {"off": True, "reason": text or None, "who": name, "since": since, "until": until}
    set_(shard, row, changes=changes)


def resume(shard: Shard, row: str, *, who: str | None) -> None:
    """End a pause; a breaker that is open closes, and that is told."""
    running = {"off": False, "reason": None, "who": None, "since": None, "until": None}
    set_(shard, row, changes={**running, "breaker": CLOSED}, who=who)


def close_breaker(shard: Shard, kind: str, *, who: str | None) -> None:
    """Close the breaker of a kind if it is open, and tell that; nothing else changes."""
    set_(shard, kind, changes={"breaker": CLOSED}, who=who)


def changes(
    kind: str,
    *,
    noun: str = "kind",
    rate: str | UnsetType | None = UNSET,
    window: str | Window | UnsetType | None = UNSET,
    concurrency: int | UnsetType | None = UNSET,
) -> dict[str, Any]:
    """What to set for a kind or a downstream, checked; an error calls it by its `noun`."""
    changes: dict[str, Any] = {}
    what = f"{noun} {kind!r}"
    if not isinstance(rate, UnsetType):
        if rate not in (None, NONE):
            parse_rate(rate, what=f"{what}: rate")
        changes["rate"] = rate
    if not isinstance(window, UnsetType):
        if window not in (None, NONE):
            window = _window_text(window, what=f"{what}: window")
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


def _window_text(given: object, *, what: str) -> str:
    window = parse_window(given, what=what)
    if window.holidays is not None:
        raise BadInput(
            f"{what}: a row cannot have holidays ({window.holidays.name}); declare the window "
            "with them in the code, or set a text"
        )
    return window.text


def _rows(fleet: Fleet) -> SwitchRows:
    """All switches as the first shard that answers has them."""
    return fleet.ask(lambda shard: shard.database.read(limit_store.switches)).values[0]


def _view(kind: Kind | Downstream, rows: SwitchRows, now: int) -> SwitchView:
    group = kind.group if isinstance(kind, Kind) else None
    row = rows.of(kind.name, group) if isinstance(kind, Kind) else rows.alone(kind.name)
    setting, breaker = setting_of(kind, row, now=now), row.breaker
    off = row.is_off(now)
    return SwitchView(
        kind=kind.name,
        group=group,
        off=off,
        reason=row.reason if off else None,
        who=row.who if off else None,
        since=row.since if off else None,
        until=row.until if off else None,
        paused_by=[each.kind for each in setting.pauses],
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
            window=None if setting.window is None else str(setting.window),
            concurrency=setting.concurrency,
            problem=setting.problem,
        ),
        ahead=None if setting.window is None else ahead_of(setting.window, now=now),
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
