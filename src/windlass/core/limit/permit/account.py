"""The loop that takes and returns the permits of a worker: see `permit/share.py` for the rules.

A worker that lacks permits looks every 100 ms whether some are free, and takes a lot of them. What
it has not used for a moment it returns, and more than its part when others wait. While it neither
holds nor lacks a permit, it asks nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from windlass.core.limit.permit import store as permit_store
from windlass.core.limit.permit.guest import Guest
from windlass.core.limit.permit.share import Holding, PermitRequest, fair_share
from windlass.core.loop import Loop
from windlass.core.run.permit import Pool
from windlass.database.connection import Connection
from windlass.database.database import Database

ASK_SECONDS = 0.1
LOOK_SECONDS = 0.4
IDLE_SECONDS = 1.0
# How often a worker says that it still waits.
SAY_SECONDS = 1.0
# How long a worker keeps a permit above its base while others wait.
TURN_SECONDS = 1.0


@dataclass
class Account:
    """The permits of one pool, and the row that they are in."""

    pool: Pool
    database: Database
    # Its row, as it was last written; None without one.
    row: Holding | None = None
    _others: list[Holding] = field(default_factory=list)
    _now: int = 0
    _me: int = 0
    # Whether the answer to its last change may have been lost.
    _is_unsure: bool = False
    _next_at: float = 0.0
    _said_at: float = 0.0
    _turn_until: float = 0.0

    def tend(self) -> tuple[float, bool]:
        """Take or return permits if it is time; when to tend again, and whether it has more."""
        me, now, demand = self.pool.holder.id, time.monotonic(), self.pool.demand()
        if me != self._me:
            self._me, self.row, self._is_unsure = me, None, False
        if me == 0:
            return ASK_SECONDS, False
        has_row = self.row is not None or self._is_unsure
        if not has_row and demand == 0:
            return IDLE_SECONDS, False
        if self.pool.limit is None:
            self._write(lambda _others, now: Holding(me, 0, 0, None, now))
            self.row = None
            return IDLE_SECONDS, False
        if now < self._next_at:
            return self._next_at - now, False
        self._next_at = now + ASK_SECONDS
        self._look()
        target = self._share(self._others, self._now, demand)
        held, used = self.pool.lower(target)
        has_more = False
        if self._is_news(target, demand, least=max(held, used)):
            has_more = self._exchange(held, used, demand)
        is_busy = demand > self.pool.held or (self.row is not None and self.row.held > held)
        return ASK_SECONDS if is_busy else LOOK_SECONDS, has_more

    def _look(self) -> None:
        def look(connection: Connection) -> tuple[list[Holding], int]:
            now = self.database.dialect.measure(connection)
            return permit_store.holdings(connection, self.pool.name), now

        found, self._now = self.database.read(look, tries=2)
        self._others = [each for each in found if each.worker != self._me]
        mine = next((each for each in found if each.worker == self._me), None)
        self.row = None if mine is None or not (mine.held or mine.wanted) else mine

    def _is_news(self, target: int, demand: int, *, least: int) -> bool:
        """Whether its row must be written."""
        held = 0 if self.row is None else self.row.held
        was_waiting = self.row is not None and self.row.waits_since is not None
        if max(target, least) != held or was_waiting != (demand > max(target, least)):
            return True
        return was_waiting and time.monotonic() - self._said_at >= SAY_SECONDS

    def _exchange(self, held: int, used: int, demand: int) -> bool:
        before = 0 if self.row is None else self.row.held
        shares: list[int] = []

        def decide(others: list[Holding], now: int) -> Holding:
            share = self._share(others, now, demand)
            shares[:] = [share]
            after = max(share, held, used)
            since = self._waits_since(now) if after <= before else now
            waits_since = since if demand > after else None
            return Holding(self._me, after, demand, waits_since, now)

        if not self._write(decide):
            return False
        self._said_at = time.monotonic()
        raised = max(held, shares[0])
        if raised > held:
            self._turn_until = time.monotonic() + TURN_SECONDS
            self.pool.raise_to(raised, holder=self._me)
        return raised > held

    def _write(self, decide: Callable[[list[Holding], int], Holding]) -> bool:
        """Write its row; False if its worker was marked left."""
        me, dialect = self._me, self.database.dialect

        def work(connection: Connection) -> Holding | None:
            return permit_store.exchange(connection, dialect, self.pool.name, me=me, decide=decide)

        self._is_unsure = True
        after = self.database.write_as(me, work, lost=None, tries=2)
        self._is_unsure = False
        # A row that holds and wants nothing need not be tended.
        self.row = None if after is None or not (after.held or after.wanted) else after
        return after is not None

    def _share(self, others: list[Holding], now: int, demand: int) -> int:
        claim = PermitRequest(
            self._me,
            least=0,
            wanted=demand,
            waits_since=self._waits_since(now),
            has_turn=self.pool.held > 0 and time.monotonic() < self._turn_until,
        )
        return fair_share(self.pool.limit or 0, claim, others, now=now)

    def _waits_since(self, now: int) -> int:
        row = self.row
        if row is None or row.waits_since is None:
            return now
        # A turn that is over goes to the others: from then on it waits like a new one.
        turned_at = now - int((time.monotonic() - self._turn_until) * 1_000_000)
        return max(row.waits_since, turned_at) if self._turn_until else row.waits_since


class Permits(Loop):
    """Tends the permits of a worker."""

    name = "permit"

    def __init__(
        self,
        accounts: Iterable[Account],
        *,
        guests: Iterable[Guest] = (),
        gained: Callable[[], None] = lambda: None,
        freed: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self.accounts = list(accounts)
        self._guests = list(guests)
        self._gained = gained
        self._pause = IDLE_SECONDS
        for account in self.accounts:
            account.pool.on_lack = self.lacked
            account.pool.on_free = freed

    def tick(self) -> float:
        # A permit that is lacking from now on is not seen by this tick.
        pause = self._pause = IDLE_SECONDS
        for guest in self._guests:
            guest.beat()
        has_more = False
        for account in self.accounts:
            wait, is_more = account.tend()
            pause, has_more = min(pause, wait), has_more or is_more
        self._pause = pause
        if has_more:
            self._gained()
        return pause

    def lacked(self) -> None:
        """A permit is lacking: ask soon."""
        if self._pause > ASK_SECONDS:
            self.wake()

    def release(self) -> None:
        """Leave the shards where it was a guest."""
        for guest in self._guests:
            guest.leave()
