"""How a worker reads, claims and offers rows: each call is one transaction around `store`.

A transaction that takes rows first takes the worker's fence. A worker that wants to mark this one
dead waits for it; if this one is marked dead already, the transaction takes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from windlass.core.fetch.store import claim, offer
from windlass.core.fetch.store.offer import Made
from windlass.core.fetch.triage import Rescued, Triage
from windlass.core.ring.store import held
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.database.dialect.base import Lane, Most, Stamp, stamped
from windlass.value.task import Claimed

# Fails rows as poison, in the transaction that takes them.
FailAsPoison = Callable[[Connection, list[Claimed]], None]


class Rows:
    """The task rows of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._dialect = database.dialect

    def lanes(self, kinds: Collection[str]) -> list[Lane]:
        """The lanes of `kinds` that have waiting rows, each with its first due time."""
        return self._database.read(lambda connection: self._dialect.lanes(connection, kinds))

    def read(self, lane: Lane, stamp: Stamp, most: Most) -> list[Claimed]:
        """Due rows of `lane` in buckets of the worker, oldest first; writes nothing."""
        rows = self._database.read(lambda connection: self._dialect.read(connection, lane, most))
        return [stamped(row, stamp) for row in rows]

    def claim(self, lane: Lane, stamp: Stamp, most: Most) -> list[Claimed]:
        """Take due rows of `lane`, oldest first."""
        # The statement contains the fence, so it can be a transaction by itself.
        return self._database.single(
            lambda connection: self._dialect.claim(connection, lane, stamp, most)
        )

    def claim_foreign(
        self, lane: Lane, stamp: Stamp, most: Most, *, owners: Collection[int]
    ) -> list[Claimed]:
        return self._database.write_as(
            stamp.worker,
            lambda connection: claim.claim_foreign(
                connection, self._dialect, lane, stamp=stamp, most=most, owners=owners
            ),
            lost=[],
        )

    def claim_one(
        self, number: int, stamp: Stamp, *, max_lost: int, is_rested: bool
    ) -> list[Claimed]:
        return self._database.write_as(
            stamp.worker,
            lambda connection: claim.claim_one(
                connection, number, stamp, max_lost=max_lost, is_rested=is_rested
            ),
            lost=[],
        )

    def claim_offered(self, kind: str, stamp: Stamp, *, limit: int) -> list[Claimed]:
        return self._database.write_as(
            stamp.worker,
            lambda connection: offer.claim(
                connection, self._dialect, kind, stamp=stamp, limit=limit
            ),
            lost=[],
        )

    def offer(
        self,
        worker: int,
        lane: Lane,
        most: Most,
        *,
        unless: Collection[int],
        spare: int = 0,
        count: int = 1_000,
    ) -> Made:
        return self._database.write_as(
            worker,
            lambda connection: offer.make(
                connection, self._dialect, lane, most, unless=unless, spare=spare, count=count
            ),
            lost=Made([], 0),
        )

    def put_back(self, rows: Sequence[Claimed]) -> None:
        """Return claimed rows that have not started to the queue."""
        self._database.write(lambda connection: held.put_back(connection, rows))

    def rescue(
        self, stamp: Stamp, triage: Triage, *, limit: int, fail_as_poison: FailAsPoison
    ) -> Rescued:
        """Take over rows of dead workers, and count one more loss for each.

        Poison fails in the same transaction, so no worker ever holds a poison row.
        """

        def work(connection: Connection) -> Rescued:
            kinds = triage.max_lost.keys()
            abandoned = self._dialect.abandoned(connection, kinds, now=stamp.now, limit=limit)
            if not abandoned:
                return Rescued()
            rescued = triage.sort(abandoned, stamp)
            if len(abandoned) == limit:
                rescued.left.update(kinds)
            for rows, attempt in (
                (rescued.again, 1),
                (rescued.put_back, 1),
                (rescued.poison, 0),
            ):
                if rows:
                    ids = [row.id for row in rows]
                    self._dialect.rescue(connection, ids, stamp, attempt=attempt)
            if rescued.put_back:
                held.put_back(connection, rescued.put_back)
            if rescued.poison:
                fail_as_poison(connection, rescued.poison)
            return rescued

        return self._database.write_as(stamp.worker, work, lost=Rescued())

    def some_quarantined(
        self,
        lanes: Iterable[Lane],
        alone_from: Callable[[str], int],
        *,
        buckets: Iterable[range],
        now: int,
    ) -> bool:
        return self._database.read(
            lambda connection: claim.some_quarantined(
                connection, lanes, alone_from, buckets=buckets, now=now
            )
        )
