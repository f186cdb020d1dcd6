"""Membership by a coordinator: one stay after another, each with one worker id."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from windlass.core.ring.member.address import Address
from windlass.core.ring.member.base import LiveWorkers, Seat
from windlass.errors import MembersUnavailable

JOIN_SECONDS = 5.0
LEAVE_SECONDS = 2.0


class Stay(Protocol):
    """The presence of one worker in one ring; it reconnects after failures until it is ended."""

    entered: threading.Event
    """Set once the key is written and the others are listed."""

    def start(self) -> None:
        """Enter, on a thread of its own."""

    def end(self, timeout: float) -> None:
        """Withdraw, and wait up to `timeout` for it; if that is too short, it ends later."""


class Begin(Protocol):
    """Makes the stay of one seat, in etcd or in ZooKeeper."""

    def __call__(
        self, address: Address, seat: Seat, live: LiveWorkers, *, dead_after: int
    ) -> Stay: ...


class Coordinated:
    """The members of a ring, known from etcd or ZooKeeper."""

    def __init__(self, address: Address, begin: Begin, *, dead_after: int) -> None:
        self.kind = address.kind
        self._address = address
        self._begin = begin
        self._dead_after = dead_after
        self._live = LiveWorkers(address.kind)
        self._lock = threading.Lock()
        self._stay: Stay | None = None

    def join(self, ring: str, worker: int) -> None:
        seat = Seat(ring, worker)
        with self._lock:
            self._end()
            self._live.open(seat)
            stay = self._begin(self._address, seat, self._live, dead_after=self._dead_after)
            self._stay = stay
            stay.start()
            if not stay.entered.wait(JOIN_SECONDS):
                why = self._live.problem
                # The next join must know that there was an outage.
                self._live.lose(seat, why)
                self._end()
                raise MembersUnavailable(self._address.url, why)

    def leave(self) -> None:
        with self._lock:
            self._end()

    def alive(self) -> frozenset[int] | None:
        return self._live.alive

    def listen(self, heard: Callable[[], None]) -> None:
        self._live.listen(heard)

    def close(self) -> None:
        self.leave()

    def _end(self) -> None:
        stay, self._stay = self._stay, None
        self._live.close()
        if stay is not None:
            stay.end(LEAVE_SECONDS)
