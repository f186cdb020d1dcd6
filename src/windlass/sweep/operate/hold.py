"""A key that a caller visits: no other caller or worker visits it at the same time.

The row of the visit in the database is held for a few seconds, and renewed while the visit goes on.
A caller that dies lets it lapse, and another one may go on.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from windlass.clock import SECOND
from windlass.core.shard.shard import Shard
from windlass.database.connection import Connection
from windlass.sweep.store import request as store
from windlass.sweep.store.sweep import VISITS

HOLD_FOR = 10 * SECOND
RENEW_SECONDS = 2.0


@dataclass(eq=False)
class KeyHold:
    """Holds one key of a sweep for one caller; `key` is encoded."""

    shard: Shard
    sweep: str
    key: str
    batch: int
    # Without its table, nothing is held.
    has_table: bool = True
    _renewed_at: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, shard: Shard, sweep: str, key: str) -> KeyHold:
        """A hold that is not taken yet."""
        has_table = shard.database.schema.has(VISITS)
        return cls(shard, sweep, key, shard.numbers.take()[0], has_table)

    def take(self) -> bool:
        """Hold the key; False if another visit of it runs."""
        if not self.has_table:
            return True
        now = self.shard.clock.now()

        def work(connection: Connection) -> bool:
            return store.hold(
                connection,
                self.shard.database.dialect,
                self.sweep,
                key=self.key,
                batch=self.batch,
                now=now,
                until=now + HOLD_FOR,
            )

        is_mine = self.shard.database.write(work)
        self._renewed_at = time.monotonic()
        return is_mine

    def keep(self) -> None:
        """Renew it, if it is time."""
        if not self.has_table or time.monotonic() - self._renewed_at < RENEW_SECONDS:
            return
        self._renewed_at = time.monotonic()
        until = self.shard.clock.now() + HOLD_FOR
        self.shard.database.write(
            lambda connection: store.renew(
                connection, self.sweep, key=self.key, batch=self.batch, until=until
            )
        )

    def end(self, connection: Connection) -> None:
        """The visit has ended, in the current transaction."""
        if self.has_table:
            store.end(connection, self.sweep, [self.key], batch=self.batch)

    def give_up(self) -> None:
        """There was no visit."""
        if self.has_table:
            self.shard.database.write(self.end)
