"""The fetcher: gets as many rows as can start soon, and no more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from windlass import telemetry
from windlass.core.face import Resolved
from windlass.core.fetch.claim import Claims, Taken
from windlass.core.fetch.handoff import HandOff
from windlass.core.fetch.quarantine import Quarantine
from windlass.core.loop import Loop
from windlass.core.run.in_flight import InFlight
from windlass.value.task import Claimed

SHORTEST_PAUSE = 0.010
LONGEST_PAUSE = 1.0
LOOK_FOR_ABANDONED_AFTER = 1.0
SETTLING_PAUSE = 0.05
PACE_SECONDS = 0.02
WAIT_FOR_RATE = 2.0
# After a hand-off, look for other rows after 20 ms without a new one, and at least every 250 ms.
HANDED_PAUSE = 0.02
LONGEST_HANDED = 0.25


class Fetcher(Loop):
    """Claims rows while there is room. While nothing is due, it asks less and less often."""

    name = "fetcher"

    def __init__(
        self,
        claims: Claims,
        in_flight: InFlight,
        *,
        hand_off: HandOff,
        resolve: Callable[[Sequence[Claimed]], Resolved],
    ) -> None:
        super().__init__()
        self._claims = claims
        self._in_flight = in_flight
        self._hand_off = hand_off
        self._resolve = resolve
        self._looked_at = self._look_at = 0.0
        # Why it woke up: rows may be due, or rows were handed off.
        self._is_asked = self._is_handed = False
        self._pause = SHORTEST_PAUSE
        self._looked_for_abandoned = float("-inf")
        self._abandoned: set[str] = set()
        self._quarantine = Quarantine()
        self.idle = threading.Event()
        # Whether the last fetch had room and found no row.
        self.found_nothing = False

    def tick(self) -> float:
        if self._in_flight.is_halted:
            self._hand_off.clear()
            return SHORTEST_PAUSE * 10
        is_settled = self._claims.tend()
        now = time.monotonic()
        if self._take_handed():
            # Hand-offs come in series: look for other due rows between them.
            self._look_at = min(now + HANDED_PAUSE, self._looked_at + LONGEST_HANDED)
        is_asked, self._is_asked = self._is_asked, False
        is_handed, self._is_handed = self._is_handed, False
        if is_handed and not is_asked and now < self._look_at:
            return self._look_at - now
        pause = self._fetch()
        pause = pause if is_settled else min(pause, SETTLING_PAUSE)
        self._looked_at = time.monotonic()
        self._look_at = self._looked_at + pause
        return pause

    def wake(self) -> None:
        self._is_asked = True
        super().wake()

    def wake_for(self, *, look: bool) -> None:
        """Take the handed-off rows; with `look`, look for other rows as well."""
        if look:
            self.look_now()
        else:
            self._is_handed = True
            super().wake()

    def wake_hungry(self) -> None:
        self._in_flight.is_hungry = False
        self.wake()

    def _fetch(self) -> float:
        if self._quarantine.is_wanted:
            pause = self._run_alone()
            if pause is not None:
                return pause
        was_empty = self._in_flight.is_empty
        rescued = self._rescue()
        # Set before looking: a run that ends from now on wakes the fetcher, so no room is missed.
        self._in_flight.is_hungry = True
        room = self._in_flight.room()
        self._claims.help()
        if not room.kinds:
            if was_empty and not rescued:
                self.idle.set()
            return LONGEST_PAUSE
        self._in_flight.is_hungry = bool(self._abandoned)
        self._in_flight.is_claiming = True
        try:
            taken = self._claims.take(room)
            self._add(taken)
        finally:
            self._in_flight.is_claiming = False
        held_for = taken.held_for
        self.found_nothing = not taken.tasks
        if taken.tasks:
            self._pause = SHORTEST_PAUSE
            return 0.0 if held_for is None else PACE_SECONDS
        if taken.some_quarantined and self._quarantine.want():
            return 0.0 if was_empty else SHORTEST_PAUSE
        is_paced = held_for is not None and held_for < WAIT_FOR_RATE
        if was_empty and not (rescued or taken.is_settling or is_paced):
            self.idle.set()
        pause = self._rest(taken)
        return pause if held_for is None else max(PACE_SECONDS, min(held_for, pause))

    def _take_handed(self) -> bool:
        if self._quarantine.is_wanted:
            self._hand_off.clear()
            return False
        tasks = self._hand_off.take(self._in_flight.room())
        # A read may have found a handed-off row first.
        tasks = [task for task in tasks if not self._in_flight.knows(task.id)]
        if tasks:
            self._start(tasks)
        return bool(tasks)

    @property
    def wants_quiet(self) -> bool:
        return self._quarantine.is_wanted

    def look_now(self) -> None:
        """A task was enqueued: fetch now, and often for a while."""
        self._claims.look_again()
        self._pause = SHORTEST_PAUSE
        self.wake()

    def _rest(self, taken: Taken) -> float:
        pause = self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        if taken.next_due_in is not None:
            pause = min(pause, taken.next_due_in)
        return max(pause, 0.001)

    def _rescue(self) -> bool:
        """Take over abandoned rows that can start here soon; returns whether there were any."""
        now = time.monotonic()
        is_time = now - self._looked_for_abandoned > LOOK_FOR_ABANDONED_AFTER
        if not (is_time or self._abandoned):
            return False
        room = self._in_flight.room_for_abandoned()
        kinds: Collection[str] = self._abandoned & room.kinds.keys()
        if is_time:
            kinds = self._in_flight.loads
        if not kinds:
            return False
        taken = self._claims.take_abandoned(kinds, room, alone=False)
        self._abandoned = (self._abandoned - set(kinds)) | taken.left
        if not (taken.tasks or taken.poison):
            self._looked_for_abandoned = now
        if taken.some_quarantined:
            self._quarantine.want()
        self._add(taken)
        for task in taken.tasks:
            telemetry.emit("task.rescued", task=task.id, kind=task.kind, lost=task.lost)
        return bool(taken.tasks or taken.poison or self._quarantine.is_wanted)

    def _run_alone(self) -> float | None:
        """Run a quarantined row while nothing else is in flight; returns None to fetch as usual."""
        is_empty = self._in_flight.is_empty
        if self._quarantine.is_running and not is_empty:
            return SHORTEST_PAUSE
        self._quarantine.is_running = False
        if not self._quarantine.may_begin(is_empty=is_empty):
            return None if self._quarantine.stops_waiting() else SHORTEST_PAUSE
        taken = self._claims.take_abandoned(
            self._in_flight.loads, self._in_flight.room_for_abandoned(), alone=True
        )
        self._add(taken)
        if taken.tasks:
            self._quarantine.is_running = True
            return SHORTEST_PAUSE
        self._quarantine.found_none()
        return None

    def _add(self, taken: Taken) -> None:
        for task in taken.poison:
            telemetry.emit("task.poison", task=task.id, kind=task.kind, lost=task.lost)
        if taken.tasks:
            self._start(taken.tasks, probes=taken.probes)
            self._hand_off.forget(taken.tasks)

    def _start(self, tasks: Sequence[Claimed], *, probes: Collection[int] = ()) -> None:
        refused: Mapping[int, Exception] = {}
        if any(task.flow_id is not None for task in tasks):
            tasks, refused = self._resolve(tasks)
        self._in_flight.add(tasks, probes=probes, refused=refused)
