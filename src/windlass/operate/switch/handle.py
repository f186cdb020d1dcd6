"""What an app can do with switches: pause, resume and set kinds while workers run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import UNSET, UnsetType

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Registry
from windlass.operate.switch import operate
from windlass.value.twin import awaited


class Switching:
    """The methods of `App` that hold kinds back and let them run."""

    fleet: Fleet
    registry: Registry

    def pause(self, kind: str, *, reason: str = "", who: str | None = None) -> None:
        """Start nothing of `kind` until it is resumed. Running tasks finish."""
        self._switch(kind, "paused", partial(operate.pause, reason=reason, who=who))

    def resume(self, kind: str, *, who: str | None = None) -> None:
        """Let `kind` run again, and close its breaker if it is open."""
        self._switch(kind, "resumed", partial(operate.resume, who=who))

    def close_breaker(self, kind: str, *, who: str | None = None) -> None:
        """Close the breaker of `kind` if it is open. A pause stays."""
        self._switch(kind, "given a closed breaker", partial(operate.close_breaker, who=who))

    def set(
        self,
        kind: str,
        *,
        rate: str | UnsetType | None = UNSET,
        window: str | UnsetType | None = UNSET,
        concurrency: int | UnsetType | None = UNSET,
    ) -> None:
        """Change the limits of `kind` in all running workers, until they are set again.

        None restores what the kind declares; "none" removes the rate or the window.
        """
        changes = operate.changes(kind, rate=rate, window=window, concurrency=concurrency)
        self._switch(kind, "set", partial(operate.set_, changes=changes))

    apause = awaited(pause)
    aresume = awaited(resume)
    aset = awaited(set)

    def _switch(self, kind: str, done: str, change: Callable[[Shard, str], object]) -> None:
        name = self.registry.get(kind).name
        self.fleet.prepare()
        self.fleet.everywhere(lambda shard: change(shard, name), what=f"kind {name!r} is {done}")
        for shard in self.fleet.shards:
            shard.bell.ring_here()
