"""A model of another system whose capacity changes, and a fleet that calls it as adapting says.

The fleet is as slow and as uneven as a real one. It starts a few calls together, tells what it saw
and hears of changes some time later, counts the calls that are in flight by worker, and loses some
moments of its rate. Calls take longer by what its own machine, which does other work, adds.
"""

import heapq
import random
from collections import deque
from dataclasses import dataclass, field

from windlass.clock import SECOND
from windlass.value.load.adapt import AdaptState, Ceilings, Interval, adapt, begin
from windlass.value.rate import CAUTION, LATE

INTERVAL = 0.5
# How long the fleet needs to hear of a change, at most.
HEARS_AFTER = 0.8
# Starts that are made together, and the longest time that the first waits for the others.
TOGETHER = 4
LONGEST_WAIT = 0.07
# How long refused rows wait.
REFUSED_TAKES = 0.004


@dataclass
class OtherSide:
    """Refuses above a rate, or above a number of calls at once, or lets calls wait in a queue."""

    kind: str
    capacity: float
    latency: float
    chance: random.Random
    in_flight: int = 0
    waiting: deque[int] = field(default_factory=deque)
    tokens: float = 3.0
    filled_at: float = 0.0

    @property
    def at_once(self) -> int:
        return max(1, round(self.capacity * self.latency))

    def call(self, now: float, number: int) -> float | None:
        """How long the call takes; None if it is refused, 0 if it waits."""
        if self.kind == "rate":
            burst = max(5.0, 0.25 * self.capacity)
            self.tokens = min(burst, self.tokens + (now - self.filled_at) * self.capacity)
            self.filled_at = now
            if self.tokens < 1:
                return None
            self.tokens -= 1
            return self.takes()
        if self.in_flight < self.at_once:
            self.in_flight += 1
            return self.takes()
        if self.kind == "concurrency":
            return None
        self.waiting.append(number)
        return 0.0

    def takes(self) -> float:
        return self.latency * self.chance.uniform(0.7, 1.3)

    def ended(self) -> int | None:
        """A call has ended; which call begins now."""
        if self.kind == "rate":
            return None
        self.in_flight -= 1
        if self.waiting and self.in_flight < self.at_once:
            self.in_flight += 1
            return self.waiting.popleft()
        return None


@dataclass
class Phase:
    """What was done while the capacity was the same, after it had settled."""

    capacity: float
    succeeded: int = 0
    refused: int = 0
    seconds: float = 0.0
    latency_sum: float = 0.0

    @property
    def share(self) -> float:
        """The part of the capacity that was used."""
        return self.succeeded / self.seconds / self.capacity

    @property
    def refused_share(self) -> float:
        return self.refused / max(1, self.refused + self.succeeded)

    @property
    def mean_latency(self) -> float:
        return self.latency_sum / max(1, self.succeeded)


@dataclass
class Fleet:
    """Workers that call the other side, moved through virtual time."""

    side: OtherSide
    bounds: Ceilings
    chance: random.Random
    workers: int = 1
    # The mean time that its own machine adds to a call, which changes now and then.
    busy: float = 0.005
    state: AdaptState = field(init=False)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.state = self.applied = begin(self.bounds)
        self.heard: list[tuple[float, AdaptState]] = []
        # When something ends or is heard of: (time, number of the call, whether it is heard of).
        self.events: list[tuple[float, int, bool]] = []
        self.calls: dict[int, tuple[float, int]] = {}
        self.number = 0
        self.seen = Interval()
        self.running = [0] * self.workers
        self.peaks = [0] * self.workers
        self.next_tick = INTERVAL
        self.next_start = 0.0
        self.added = self.busy
        self.refused_now: set[int] = set()
        self.trail: list[tuple[float, AdaptState, Interval]] = []

    def run(self, until: float, phase: Phase, *, settled_at: float) -> None:
        """Move on to `until`, and count what is done after it has settled."""
        while True:
            moment = min(self.next_tick, self._next_start(), self._next_event())
            if moment >= until:
                self.now = until
                return
            self.now = max(self.now, moment)
            while self.heard and self.heard[0][0] <= self.now:
                self.applied = self.heard.pop(0)[1]
            if moment == self.next_tick:
                self._tick()
            elif moment == self._next_event():
                self._event(phase, is_settled=self.now >= settled_at)
            else:
                self._start()

    def _next_event(self) -> float:
        return self.events[0][0] if self.events else float("inf")

    def _next_start(self) -> float:
        if sum(self.running) >= (self.applied.concurrency or 1_000_000):
            return float("inf")
        return max(self.next_start, self.now)

    def _start(self) -> None:
        interval = 1.0 / (CAUTION * self.applied.rate) if self.applied.rate else 0.0
        most = (self.applied.concurrency or 1_000_000) - sum(self.running)
        together = min(TOGETHER, int(LONGEST_WAIT / interval)) if interval else 1
        # A moment that is too late is lost.
        self.next_start = max(self.next_start, self.now - LATE / SECOND)
        for _ in range(min(max(1, together), most)):
            self._call()
            self.next_start += interval

    def _call(self) -> None:
        self.number += 1
        worker = self.running.index(min(self.running))
        self.calls[self.number] = self.now, worker
        self.seen.started += 1
        self.running[worker] += 1
        self.peaks[worker] = max(self.peaks[worker], self.running[worker])
        takes = self.side.call(self.now, self.number)
        if takes is None:
            self.refused_now.add(self.number)
            heapq.heappush(self.events, (self.now + REFUSED_TAKES, self.number, True))
        elif takes:
            heapq.heappush(self.events, (self.now + takes, self.number, False))

    def _event(self, phase: Phase, *, is_settled: bool) -> None:
        _, number, is_heard = heapq.heappop(self.events)
        if not is_heard:
            begun = self.side.ended()
            if begun is not None:
                heapq.heappush(self.events, (self.now + self.side.takes(), begun, False))
            late = self.chance.expovariate(1.0 / self.added)
            heapq.heappush(self.events, (self.now + late, number, True))
            return
        began, worker = self.calls.pop(number)
        self.running[worker] -= 1
        if number in self.refused_now:
            self.refused_now.discard(number)
            self.seen.overloaded += 1
            phase.refused += is_settled
            return
        self.seen.succeeded += 1
        self.seen.latency_sum += self.now - began
        phase.succeeded += is_settled
        phase.latency_sum += (self.now - began) * is_settled

    def _tick(self) -> None:
        self.seen.in_flight = sum(self.peaks)
        seen = self.seen
        now = int(self.now * SECOND) + 10**12
        self.state = adapt(self.state, self.bounds, seen, seconds=INTERVAL, now=now)
        self.trail.append((self.now, self.state, seen))
        self.heard.append((self.now + self.chance.uniform(0.1, HEARS_AFTER), self.state))
        self.heard.sort(key=lambda each: each[0])
        self.seen, self.peaks = Interval(), list(self.running)
        self.next_tick += INTERVAL
        if self.chance.random() < 0.05:
            self.added = self.busy * self.chance.choice([0.3, 1.0, 1.0, 3.0])


def run(
    kind: str,
    capacities: list[float],
    bounds: Ceilings,
    *,
    seed: int = 1,
    seconds: float = 120.0,
    settle: float = 60.0,
    latency: float = 0.1,
    workers: int = 1,
    busy: float = 0.005,
) -> list[Phase]:
    """Call it for `seconds` at each capacity; what was done after `settle` seconds of each."""
    chance = random.Random(seed)
    side = OtherSide(kind, capacities[0], latency, chance)
    fleet = Fleet(side, bounds, chance, workers=workers, busy=busy)
    phases = []
    for index, capacity in enumerate(capacities):
        side.capacity = capacity
        begins = index * seconds
        phases.append(Phase(capacity, seconds=seconds - settle))
        fleet.run(begins + seconds, phases[-1], settled_at=begins + settle)
    return phases
