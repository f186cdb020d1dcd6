"""Membership by a coordinator: what etcd and ZooKeeper share.

Who is the authority? The coordinator (etcd or ZooKeeper) says which workers are alive; only the
database says who owns what. So no failure here can let two workers own one bucket. At worst a
worker is marked dead too early, and then the database refuses what it still writes.

What does silence mean? Nothing. While the coordinator is away no worker counts as dead, and each
goes on with what it owns. When the coordinator is back it may have forgotten the workers (its data
was lost, or all leases ran out), so the first list after an outage is not believed until all
workers have had time to come back. The very first list is believed at once: a worker that joins is
needed soon, and the rows in the database still protect the workers that it does not see.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from windlass import telemetry
from windlass.core.ring.member.address import Address
from windlass.errors import BadMembers, MembersUnavailable

JOIN_SECONDS = 5.0
LEAVE_SECONDS = 2.0
FIRST_PAUSE_SECONDS = 0.1
# The longest pause between two tries to reach the coordinator.
LONGEST_PAUSE_SECONDS = 0.5


class Members:
    """Which workers of a ring are alive, as one of them hears it from etcd or ZooKeeper."""

    def __init__(self, address: Address, begin: Callable[[Seat, LiveWorkers], Stay]) -> None:
        # "etcd" or "zookeeper".
        self.kind = address.kind
        self._url = address.url
        self._begin = begin
        self._live = LiveWorkers(address.kind)
        self._lock = threading.Lock()
        self._stay: Stay | None = None
        self._worker: int | None = None

    def join(self, ring: str, worker: int) -> None:
        """Be alive under that id from now on; an earlier id is withdrawn.

        Returns when the key is written and the others are listed. Raises MembersUnavailable when
        the coordinator does not answer within a few seconds; then nothing is joined.
        """
        seat = Seat(ring, worker)
        with self._lock:
            self._end()
            self._worker = worker
            self._live.open(seat)
            stay = self._stay = self._begin(seat, self._live)
            stay.start()
            if not stay.entered.wait(JOIN_SECONDS):
                why = self._live.problem
                # The next join must know that there was an outage.
                self._live.lose(seat, why)
                self._end()
                raise MembersUnavailable(self._url, why)

    def leave(self, worker: int | None = None) -> None:
        """Withdraw at once. Never raises; if the coordinator is away, the lease runs out.

        With `worker`, only if it is still alive under that id: another thread may have joined anew.
        """
        with self._lock:
            if worker in (None, self._worker):
                self._end()

    def alive(self) -> frozenset[int] | None:
        """The workers that are alive as last heard, this one included; None if not known.

        It is not known before `join`, while the coordinator is away, and for one lease after that.
        """
        return self._live.alive

    def listen(self, heard: Callable[[], None]) -> None:
        """Call `heard` on any thread when `alive()` changes.

        It must be quick, and must neither join nor leave.
        """
        self._live.listen(heard)

    def close(self) -> None:
        """Leave, and end every thread."""
        self.leave()

    def _end(self) -> None:
        stay, self._stay = self._stay, None
        self._live.close()
        if stay is not None:
            stay.end(LEAVE_SECONDS)


class Stay(Protocol):
    """The presence of one worker in one ring; it reconnects after failures until it is ended."""

    entered: threading.Event
    """Set once the key is written and the others are listed."""

    def start(self) -> None:
        """Enter, on a thread of its own."""

    def end(self, timeout: float) -> None:
        """Withdraw, and wait up to `timeout` for it; if that is too short, it ends later."""


@dataclass(frozen=True, eq=False)
class Seat:
    """The place of one worker in one ring, from one `join` to the next."""

    ring: str
    worker: int

    def __post_init__(self) -> None:
        if not self.ring or set(self.ring) <= {"."}:
            raise BadMembers(f"{self.ring!r} cannot be the name of a ring; use at least one letter")

    @property
    def folder(self) -> str:
        """The folder with the keys of all workers of the ring, without a slash at the end."""
        return f"/windlass/{quote(self.ring, safe='')}"

    @property
    def key(self) -> str:
        return f"{self.folder}/{self.worker}"


class Broken(Exception):
    """A session with the coordinator cannot go on."""


def workers_in(names: Iterable[str]) -> set[int]:
    """The worker ids in these keys; other keys are ignored."""
    return {int(last) for name in names if (last := name.rpartition("/")[2]).isdecimal()}


def in_short(problem: BaseException) -> str:
    """One line about an error."""
    lines = str(problem).strip().splitlines()
    return (lines or [type(problem).__name__])[0][:300]


def pause_after(failures: int) -> float:
    """The seconds to wait before the next try; random, so that workers do not try in step."""
    longest: float = min(FIRST_PAUSE_SECONDS * 2 ** min(failures - 1, 10), LONGEST_PAUSE_SECONDS)
    return longest * random.uniform(0.5, 1.0)


class LiveWorkers:
    """Which workers are alive as last heard, and whether to believe it.

    Only the current seat may report; reports of a former seat are ignored.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []
        self._seat: Seat | None = None
        self._listed: frozenset[int] | None = None
        self._away_since: float | None = None
        self._doubtful_until = 0.0
        self.alive: frozenset[int] | None = None
        self.problem = "no answer"

    def listen(self, heard: Callable[[], None]) -> None:
        with self._lock:
            self._listeners.append(heard)

    def open(self, seat: Seat) -> None:
        with self._lock:
            self._seat = seat
            self._listed = None
            self.problem = "no answer"
        self._publish()

    def close(self) -> None:
        with self._lock:
            self._seat = self._listed = None
        self._publish()

    def hear(self, seat: Seat, listed: Iterable[int], *, settle_seconds: float) -> None:
        """The coordinator has listed the workers.

        After an outage the list is believed only after `settle_seconds`.
        """
        with self._lock:
            if seat is not self._seat:
                return
            away_since, self._away_since = self._away_since, None
            if away_since is not None:
                self._doubtful_until = time.monotonic() + settle_seconds
            self._listed = frozenset(listed)
        if away_since is not None:
            away_seconds = round(time.monotonic() - away_since, 1)
            self._tell("members.back", seat, away_seconds=away_seconds)
        self._publish()

    def lose(self, seat: Seat, why: str) -> None:
        """The coordinator does not answer, or no longer lists this seat."""
        with self._lock:
            if seat is not self._seat:
                return
            self._listed = None
            self.problem = why
            is_new = self._away_since is None
            if is_new:
                self._away_since = time.monotonic()
        if is_new:
            self._tell("members.away", seat, error=why)
        self._publish()

    def settle(self) -> float | None:
        """Believe the list if it is time; otherwise, in how many seconds it will be."""
        self._publish()
        remaining = self._doubtful_until - time.monotonic()
        return remaining if remaining > 0 else None

    def _publish(self) -> None:
        with self._lock:
            is_believed = time.monotonic() >= self._doubtful_until
            alive = self._listed if is_believed else None
            if alive == self.alive:
                return
            self.alive = alive
            listeners = list(self._listeners)
        for heard in listeners:
            try:
                heard()
            except Exception:
                telemetry.log.exception("a listener to members failed")

    def _tell(self, event: str, seat: Seat, **facts: object) -> None:
        telemetry.emit(event, kind=self._kind, ring=seat.ring, worker=seat.worker, **facts)
