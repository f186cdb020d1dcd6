"""A model of another system whose capacity changes, and a fleet that calls it as adapting says."""

import heapq
import random
from dataclasses import dataclass, field

from windlass.clock import SECOND
from windlass.value.load.adapt import Ceilings, Interval, adapt, begin

INTERVAL = 0.5
# How long the fleet needs to hear of a change.
HEARS_AFTER = 0.8


@dataclass
class OtherSide:
    """Refuses above a rate, or above a number of calls at once, or lets calls wait in a queue."""

    kind: str
    capacity: float
    latency: float
    chance: random.Random
    in_flight: int = 0
    free_at: list[float] = field(default_factory=list)
    tokens: float = 3.0
    filled_at: float = 0.0

    def call(self, now: float) -> tuple[bool, float]:
        """Whether the call is taken, and when it ends."""
        takes = self.latency * self.chance.uniform(0.7, 1.3)
        match self.kind:
            case "rate":
                burst = max(2.0, 0.02 * self.capacity)
                self.tokens = min(burst, self.tokens + (now - self.filled_at) * self.capacity)
                self.filled_at = now
                if self.tokens < 1:
                    return False, now + 0.002
                self.tokens -= 1
            case "concurrency":
                takes = self.latency * self.chance.expovariate(1.0)
                if self.in_flight >= self.capacity * self.latency:
                    return False, now + 0.002
            case "queue":
                servers = max(1, round(self.capacity * self.latency))
                while len(self.free_at) > servers:
                    heapq.heappop(self.free_at)
                while len(self.free_at) < servers:
                    heapq.heappush(self.free_at, now)
                begins = max(now, heapq.heappop(self.free_at))
                heapq.heappush(self.free_at, begins + takes)
                return True, begins + takes
        return True, now + takes


@dataclass
class Phase:
    """What was done while the capacity was the same, after it had settled."""

    capacity: float
    succeeded: int = 0
    refused: int = 0
    seconds: float = 0.0
    latency_sum: float = 0.0

    @property
    def per_second(self) -> float:
        return self.succeeded / self.seconds

    @property
    def refused_share(self) -> float:
        return self.refused / max(1, self.refused + self.succeeded)


def run(
    kind: str,
    capacities: list[float],
    bounds: Ceilings,
    *,
    seed: int,
    seconds: float = 70.0,
    settle: float = 35.0,
    latency: float = 0.05,
    demand: float = 1e9,
) -> list[Phase]:
    """Call it for `seconds` at each capacity; what was done after `settle` seconds of each."""
    chance = random.Random(seed)
    side = OtherSide(kind, capacities[0], latency, chance)
    state = begin(bounds)
    applied, heard = state, []
    running: list[tuple[float, float, bool]] = []
    seen, now, next_start, next_tick = Interval(), 0.0, 0.0, INTERVAL
    phases = []
    for index, capacity in enumerate(capacities):
        side.capacity = capacity
        phase = Phase(capacity)
        phases.append(phase)
        since, end = index * seconds, (index + 1) * seconds
        while now < end:
            rate = min(applied.rate or 1e9, demand)
            may_start = len(running) < (applied.concurrency or 1_000_000)
            ends = running[0][0] if running else end
            moments = [ends, next_tick, end] + ([max(next_start, now)] if may_start else [])
            now = min(moments)
            is_settled = now - since >= settle
            if running and now >= running[0][0]:
                _, began, is_taken = heapq.heappop(running)
                if is_taken:
                    side.in_flight -= 1
                    seen.succeeded += 1
                    seen.latency_sum += now - began
                    if is_settled:
                        phase.succeeded += 1
                        phase.latency_sum += now - began
                else:
                    seen.overloaded += 1
                    phase.refused += is_settled
            elif now >= next_tick:
                state = adapt(state, bounds, seen, seconds=INTERVAL, now=int(now * SECOND))
                heard.append((now + HEARS_AFTER, state))
                seen, next_tick = Interval(in_flight=len(running)), next_tick + INTERVAL
                phase.seconds += INTERVAL * is_settled
            elif may_start and now >= next_start:
                is_taken, over = side.call(now)
                side.in_flight += is_taken
                heapq.heappush(running, (over, now, is_taken))
                seen.started += 1
                seen.in_flight = max(seen.in_flight, len(running))
                next_start = max(next_start, now - 0.01) + 1 / rate
            while heard and heard[0][0] <= now:
                applied = heard.pop(0)[1]
    return phases
