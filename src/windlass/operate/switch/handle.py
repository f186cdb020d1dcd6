"""What an app can do with switches: pause, resume and set what workers run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import UNSET, UnsetType

from windlass.clock import Clock
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Registry
from windlass.operate.switch import operate
from windlass.operate.switch.operate import SwitchTarget
from windlass.value.calendar.until import Until, parse_until
from windlass.value.calendar.window import Window
from windlass.value.twin import awaited


class Switching:
    """The methods of `App` that hold kinds back and let them run."""

    fleet: Fleet
    registry: Registry
    clock: Clock

    def pause(
        self,
        kind: str | None = None,
        *,
        group: str | None = None,
        until: Until | None = None,
        reason: str = "",
        who: str | None = None,
    ) -> None:
        """Start nothing of a kind, of a group, or of everything. Running tasks finish.

        It ends with `resume`, or by itself at `until`: the next "06:00", a date and time, or after
        a duration. Alerts, polls of external tasks and maintenance go on while everything is
        paused.
        """
        target = operate.target_of(self.registry, kind, group)
        self.fleet.prepare()
        ends = None if until is None else parse_until(until, now=self.clock.fresh())
        change = partial(operate.pause, reason=reason, who=who, until=ends)
        self._switch(target, "paused", change)

    def resume(
        self, kind: str | None = None, *, group: str | None = None, who: str | None = None
    ) -> None:
        """End the pause of a kind, of a group, or of everything; each ends only its own.

        If it is a kind, its breaker is closed, too.
        """
        self.fleet.prepare()
        target = operate.paused_target(self.fleet, self.registry, kind, group)
        self._switch(target, "resumed", partial(operate.resume, who=who))

    def close_breaker(self, kind: str, *, who: str | None = None) -> None:
        """Close the breaker of `kind` if it is open. A pause stays."""
        target = operate.target_of(self.registry, kind, None)
        self._switch(target, "given a closed breaker", partial(operate.close_breaker, who=who))

    def set(
        self,
        kind: str,
        *,
        rate: str | UnsetType | None = UNSET,
        window: str | Window | UnsetType | None = UNSET,
        concurrency: int | UnsetType | None = UNSET,
    ) -> None:
        """Change the limits of `kind` in all running workers, until they are set again.

        None restores what the kind declares; "none" removes the rate or the window.
        """
        noun = "downstream" if kind in self.registry.downstreams else "kind"
        changes = operate.changes(
            kind, noun=noun, rate=rate, window=window, concurrency=concurrency
        )
        target = operate.target_of(self.registry, kind, None)
        self._switch(target, "set", partial(operate.set_, changes=changes))

    apause = awaited(pause)
    aresume = awaited(resume)
    aset = awaited(set)

    def _switch(
        self, target: SwitchTarget, done: str, change: Callable[[Shard, str], object]
    ) -> None:
        self.fleet.prepare()
        self.fleet.everywhere(
            lambda shard: change(shard, target.row), what=f"{target.shown} is {done}"
        )
        for shard in self.fleet.shards:
            shard.bell.ring_here()
