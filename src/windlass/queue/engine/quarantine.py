"""Messages whose workers died run alone, so that one that kills its worker takes no other along.

A kept message counts as lost from its claim until its end is reported. So when a worker dies, every
message that it had claimed has one loss more, and nobody knows which of them is to blame. From then
on each of them is claimed when nothing else runs, by itself: the next loss is its own. After
`max_lost` losses in a row it has failed. While one waits to run alone, or runs, no consumer of the
worker begins another message.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from windlass.core.run.in_flight import InFlight
from windlass.queue.engine.effect import HeldMessage, MessageRun

# By worker: consumers of several databases in one worker share it.
_MADE: WeakKeyDictionary[InFlight, MessageQuarantine] = WeakKeyDictionary()


class MessageQuarantine:
    """Which consumers of a worker have a message that must run alone."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._wanted_by: list[Suspects] = []

    @classmethod
    def of(cls, in_flight: InFlight) -> MessageQuarantine:
        """The one of a worker."""
        return _MADE.setdefault(in_flight, cls())

    @property
    def is_wanted(self) -> bool:
        return bool(self._wanted_by)

    def want(self, suspects: Suspects) -> None:
        """Begin nothing else, until `leave`."""
        with self.lock:
            if suspects not in self._wanted_by:
                self._wanted_by.append(suspects)

    def leave(self, suspects: Suspects) -> None:
        with self.lock:
            if suspects in self._wanted_by:
                self._wanted_by.remove(suspects)

    def is_wanted_by(self, suspects: Suspects) -> bool:
        with self.lock:
            return suspects in self._wanted_by

    def is_turn_of(self, suspects: Suspects) -> bool:
        return bool(self._wanted_by) and self._wanted_by[0] is suspects


class Suspects:
    """The messages of one consumer that must run alone."""

    def __init__(self, in_flight: InFlight) -> None:
        self.quarantine = MessageQuarantine.of(in_flight)
        self._in_flight = in_flight
        # Those in hand that have not begun.
        self.waiting: deque[HeldMessage] = deque()

    @property
    def is_wanted(self) -> bool:
        """Whether this consumer has one, in hand or in the database."""
        return self.quarantine.is_wanted_by(self)

    @property
    def must_wait(self) -> bool:
        """Whether no other message may begin."""
        return self.quarantine.is_wanted

    def add(self, held: Iterable[HeldMessage]) -> None:
        """They are in hand, and wait to run alone."""
        self.waiting.extend(held)
        if self.waiting:
            self.quarantine.want(self)

    def want(self) -> bool:
        """One waits in the database; whether it may be claimed now, as nothing runs."""
        self.quarantine.want(self)
        return self.may_begin()

    def may_begin(self) -> bool:
        """Whether it is the turn of this consumer, and no message runs in the worker."""
        with self.quarantine.lock:
            return self.quarantine.is_turn_of(self) and not self._runs_any()

    def leave(self) -> None:
        """None is left: others may begin."""
        self.waiting.clear()
        self.quarantine.leave(self)

    def _runs_any(self) -> bool:
        def look() -> bool:
            runs = (*self._in_flight.queues, *self._in_flight.running.values())
            return any(isinstance(run, MessageRun) for run in runs)

        return self._in_flight.undisturbed(look)
