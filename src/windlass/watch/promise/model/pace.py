"""The pace of a kind: how fast it runs, how fast it could, and what keeps it from running."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from windlass.core.limit.switch import Setting

# What a worker runs at once of a kind that has no limit of its own.
AT_ONCE = 100
# A kind that runs at this part of its rate is held up by its rate.
NEAR_ITS_RATE = 0.85


class Hold(Enum):
    """What keeps a kind from running at all."""

    PAUSED = "it is paused"
    BREAKER = "its breaker is open"
    WORKER = "no worker runs it"


@dataclass(frozen=True)
class KindPace:
    """How fast a kind runs in one database, or in several together. Rates are per second.

    `measured` is the speed of the last minutes, with `busy` milliseconds in handlers a second.
    `is_pressed` says that rows waited all that time: the speed was all that is possible.
    """

    measured: float
    busy: float
    is_pressed: bool
    workers: int
    setting: Setting
    is_broken: bool = False
    # How many workers can share the work at most; ranges of a sweep bound it.
    most_workers: int | None = None
    # The speed without a rate that follows from a change; it replaces what was measured.
    expected: float | None = None

    @property
    def hold(self) -> Hold | None:
        """What keeps it from running; a closed window is not a hold, because it opens."""
        if self.setting.off:
            return Hold.PAUSED
        if self.is_broken:
            return Hold.BREAKER
        return None if self.workers else Hold.WORKER

    @property
    def seconds_a_run(self) -> float | None:
        """How long a run takes; None if none was measured."""
        return self.busy / self.measured / 1_000 if self.measured else None

    @property
    def helping(self) -> int:
        """How many workers share the work."""
        bound = self.workers if self.most_workers is None else self.most_workers
        return min(self.workers, bound)

    @property
    def at_once(self) -> int:
        """How many runs one worker has at once."""
        return min(self.setting.concurrency or AT_ONCE, AT_ONCE)

    @property
    def slots(self) -> int:
        """How many runs all workers have at once."""
        slots, most = self.helping * self.at_once, self.setting.most_at_once
        return slots if most is None else min(slots, most)

    @property
    def is_held_by_rate(self) -> bool:
        """Whether the rate, and not the workers, decides how fast it is."""
        rate = self.setting.rate_bound
        return rate is not None and self.is_pressed and self.measured >= NEAR_ITS_RATE * rate

    @property
    def without_rate(self) -> float | None:
        """The speed that its workers reach without a rate; None if nothing was measured.

        Under pressure that is what was measured. Otherwise the speed follows the demand, and what
        is possible follows from how long a run takes and how many run at once.
        """
        if self.expected is not None or not self.measured:
            return self.expected
        if self.is_pressed and not self.is_held_by_rate:
            return self.measured
        milliseconds = max(1.0, self.busy / self.measured)
        return self.slots * 1_000 / milliseconds

    @property
    def speed(self) -> float | None:
        """How many runs a second are possible while its window is open; None if unknown."""
        if self.hold is not None:
            return 0.0
        known = [each for each in (self.setting.rate_bound, self.without_rate) if each is not None]
        return min(known) if known else None

    @property
    def share(self) -> float:
        """The part of the time in which its window is open."""
        return self.setting.share

    def changed(
        self,
        *,
        workers: int | None = None,
        rate: float | None = None,
        concurrency: int | None = None,
        ranges: int | None = None,
    ) -> KindPace:
        """The pace after a change, if twice the workers do twice the work.

        `rate` 0 stands for no rate.
        """
        setting = self.setting
        if rate is not None:
            setting = replace(setting, rate=rate or None)
        if concurrency is not None:
            setting = replace(setting, concurrency=concurrency)
        after = replace(
            self,
            setting=setting,
            workers=self.workers if workers is None else workers,
            most_workers=self.most_workers if ranges is None else ranges,
        )
        possible, slots = self.without_rate, self.slots
        if possible is None or not slots:
            # Nobody runs it now, so there is no speed to multiply.
            return after
        return replace(after, expected=possible * after.slots / slots)


def together(paces: Sequence[KindPace]) -> KindPace:
    """The pace in several databases. A process that serves several is a worker in each."""
    bounds = [each.most_workers for each in paces if each.most_workers is not None]
    expected = [each.without_rate for each in paces if each.without_rate is not None]
    is_changed = any(each.expected is not None for each in paces)
    return KindPace(
        measured=sum(each.measured for each in paces),
        busy=sum(each.busy for each in paces),
        is_pressed=any(each.is_pressed for each in paces),
        workers=max(each.workers for each in paces),
        setting=paces[0].setting,
        is_broken=any(each.is_broken for each in paces),
        most_workers=max(bounds) if bounds else None,
        expected=sum(expected) if is_changed else None,
    )
