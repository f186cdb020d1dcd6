"""A switch as operators see it: what is set for a kind, and what holds."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.clock import Clock
from windlass.core.limit.held_back import held_back
from windlass.core.limit.store import switch
from windlass.core.limit.store.switch import Switch
from windlass.core.limit.switch import setting_of
from windlass.core.shard.fleet import Fleet
from windlass.core.task.kind import Kind, Registry
from windlass.value.rate import rate_text
from windlass.view.field import Moment


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
    return [
        _view(kind, found.get(name, Switch(name)), now)
        for name, kind in sorted(registry.kinds.items())
    ]


def show(fleet: Fleet, registry: Registry, clock: Clock, *, kind: str) -> SwitchView:
    """The switch of one kind."""
    declared = registry.get(kind)
    return _view(declared, _rows(fleet).get(kind, Switch(kind)), clock.now())


def _rows(fleet: Fleet) -> dict[str, Switch]:
    """All switches, by kind, as the first shard that answers has them."""
    return fleet.ask(lambda shard: shard.database.read(switch.listing)).values[0]


def _view(kind: Kind, row: Switch, now: int) -> SwitchView:
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
        held_back=held_back(kind, row, now=now),
        holds=SettingView(
            rate=None if setting.rate is None else rate_text(setting.rate),
            window=None if setting.window is None else setting.window.text,
            concurrency=setting.concurrency,
            problem=setting.problem,
        ),
    )
