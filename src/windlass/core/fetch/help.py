"""How many rows a busy owner offers to other workers.

An owner does not know how fast the others run these rows. So it first offers as many as they can
start at once, and doubles the number each time they took all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

MOST_OFFERED = 1_000
# After this time, every heartbeat that an owner sees is newer than its delay.
BEHIND_SECONDS = 1.2
# Stop offering when no worker had time for the offers for this long.
PATIENCE_SECONDS = 2.5


@dataclass
class Level:
    """How many rows of a kind to keep on offer, and when another worker last had time for them."""

    rows: int
    wanted_at: float
    # The size of the last offer.
    made: int = 0


@dataclass
class Helping:
    """The kinds that an owner is behind with. Times are monotonic seconds."""

    _behind: dict[str, float] = field(default_factory=dict)
    _levels: dict[str, Level] = field(default_factory=dict)

    def caught_up(self, kinds: Iterable[str]) -> None:
        """All waiting rows of these kinds can start now."""
        for kind in kinds:
            self._behind.pop(kind, None)
            self._levels.pop(kind, None)

    def behind(self, kinds: set[str], now: float) -> list[str]:
        """The busy kinds that this owner has been behind with for a while."""
        self.caught_up(self._behind.keys() - kinds)
        for kind in kinds:
            self._behind.setdefault(kind, now)
        return [kind for kind, since in self._behind.items() if now - since >= BEHIND_SECONDS]

    def wanted(self, kind: str, *, idle: int, offered: int, now: float) -> int:
        """How many more rows to offer: others have time for `idle`, and `offered` rows wait."""
        level = self._levels.get(kind)
        if level is None:
            if idle < 1:
                return 0
            level = self._levels[kind] = Level(min(idle, MOST_OFFERED), now)
        all_taken = level.made > 0 and offered == 0
        level.made = 0
        if all_taken:
            level.rows = min(2 * level.rows, MOST_OFFERED)
        if idle or all_taken:
            level.wanted_at = now
        elif now - level.wanted_at > PATIENCE_SECONDS:
            del self._levels[kind]
            return 0
        return max(0, level.rows - offered)

    def made(self, kind: str, count: int) -> None:
        """`count` rows were offered."""
        if kind in self._levels:
            self._levels[kind].made = count
