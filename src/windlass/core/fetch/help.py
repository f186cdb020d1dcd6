"""How many rows a busy owner offers to the others: as many as they take, found out by trying.

Nobody knows how fast the others are with rows that they have not run. So an owner begins with what
they could start at once, and doubles that whenever it finds that all of it was taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

MOST_OFFERED = 1_000
# One who has been behind for so long sees only heartbeats that are newer than its trouble.
BEHIND_SECONDS = 1.2
# Offers that lie there for so long, while nobody says that it has time, are enough.
PATIENCE_SECONDS = 2.5


@dataclass
class Level:
    """How many rows of a kind lie ready for the others, and since when nobody wants them."""

    rows: int
    wanted_at: float
    # How many were offered the last time.
    made: int = 0


@dataclass
class Helping:
    """What one owner knows of the kinds that it is behind with. Seconds are monotonic."""

    _behind: dict[str, float] = field(default_factory=dict)
    _levels: dict[str, Level] = field(default_factory=dict)

    def caught_up(self, kinds: Iterable[str]) -> None:
        """Nothing of these kinds waits but what can be started."""
        for kind in kinds:
            self._behind.pop(kind, None)
            self._levels.pop(kind, None)

    def behind(self, kinds: set[str], now: float) -> list[str]:
        """Those of the kinds at work that nobody has caught up with for a while."""
        self.caught_up(self._behind.keys() - kinds)
        for kind in kinds:
            self._behind.setdefault(kind, now)
        return [kind for kind, since in self._behind.items() if now - since >= BEHIND_SECONDS]

    def wanted(self, kind: str, *, idle: int, offered: int, now: float) -> int:
        """How many more rows to offer, if the others have time for `idle` and so many lie there."""
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
        """So many rows were offered, as it was wanted."""
        if kind in self._levels:
            self._levels[kind].made = count
