"""Triage of abandoned rows: run again, put back for later, quarantine, or poison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec.structs import replace

from windlass.database.dialect.base import Stamp, stamped
from windlass.value.task import Claimed

NOTHING: Mapping[str, int] = MappingProxyType({})


@dataclass
class Rescued:
    again: list[Claimed] = field(default_factory=list)
    poison: list[Claimed] = field(default_factory=list)
    put_back: list[Claimed] = field(default_factory=list)
    some_quarantined: bool = False
    # The kinds that may have more abandoned rows than there was room for.
    left: set[str] = field(default_factory=set)


class Triage(NamedTuple):
    """The rules. A row that was lost `max_lost` times in a row (by kind) is poison.

    A row that would be poison at its next loss is taken only if `alone`, so that no other row is
    lost with it. Rows of kinds in `rest` are held back until the given time. `room` limits how many
    rows are taken: by kind, and in total under None.
    """

    max_lost: Mapping[str, int]
    alone: bool
    rest: Mapping[str, int] = NOTHING
    room: Mapping[Any, int] | None = None

    def sort(self, abandoned: Iterable[Sequence[Any]], stamp: Stamp) -> Rescued:
        """Sort rows; the last value of each is how often it was lost in a row."""
        rescued, free = Rescued(), Counter(self.room)
        for *row, lost_before in abandoned:
            kind, lost, most = row[1], lost_before + 1, self.max_lost[row[1]]
            if lost >= most:
                rescued.poison.append(stamped(row, stamp, attempt=0, lost=1))
            elif kind in self.rest:
                taken = stamped(row, stamp, lost=1)
                rescued.put_back.append(replace(taken, due_at=self.rest[kind]))
            elif lost < max(1, most - 1):
                if self.room is not None and min(free[kind], free[None]) < 1:
                    rescued.left.add(kind)
                    continue
                rescued.again.append(stamped(row, stamp, lost=1))
                free.subtract((kind, None))
            elif self.alone and not rescued.again:
                rescued.again.append(stamped(row, stamp, lost=1))
                break
            else:
                rescued.some_quarantined = True
        return rescued
