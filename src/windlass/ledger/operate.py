"""The ledger as operators see it: which database's, its lists, and its audit.

A ledger lives in one database. An app with several databases has a ledger in each, and whoever asks
says which; unsaid, it is that of the first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from windlass.core.shard.fleet import Fleet
from windlass.ledger import Audit, Ledger

T = TypeVar("T")


class Ledgers:
    """The ledgers of an app, one for each of its databases; each is made once."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._made: dict[int, Ledger] = {}
        self._lock = threading.Lock()
        self._auditing = threading.Lock()

    def of(self, shard: str | None = None) -> Ledger:
        """The ledger in the database that a person means, or in the first."""
        place = self._fleet.shards[0] if shard is None else self._fleet.named(shard)
        with self._lock:
            if place.index not in self._made:
                self._made[place.index] = Ledger(place.database, clock=place.clock)
            return self._made[place.index]

    def look(self, shard: str | None, work: Callable[[Connection], T]) -> T:
        """What `work` reads in the ledger's database, once its tables are there."""
        ledger = self.of(shard)
        ledger.prepare()
        return ledger.database.read(work)

    def audit(self, shard: str | None = None) -> Audit | None:
        """Check every row of a ledger; None if somebody does already: it reads all tables."""
        if not self._auditing.acquire(blocking=False):
            return None
        try:
            return self.of(shard).audit()
        finally:
            self._auditing.release()
