"""The rows that a worker can get, each call one transaction.

A transaction that takes rows begins with the worker's fence: one who wants to mark the worker dead
has to wait for it, or has done so already and nothing is taken.
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

# Writes, in the transaction that takes them, that these rows have failed as poison.
FailAsPoison = Callable[[Connection, list[Claimed]], None]


class Rows:
    """Reads, claims and offers task rows of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def lanes(self, kinds: Collection[str]) -> list[Lane]:
        """The lanes of `kinds` that have waiting rows, each with its first due time."""
        dialect = self._database.dialect
        return self._database.read(lambda connection: dialect.lanes(connection, kinds))

    def read(self, lane: Lane, stamp: Stamp, most: Most) -> list[Claimed]:
        """Due rows of `lane` in buckets of the worker, oldest first; nothing is written."""
        dialect = self._database.dialect
        rows = self._database.read(lambda connection: dialect.read(connection, lane, most))
        return [stamped(row, stamp) for row in rows]

    def claim(self, lane: Lane, stamp: Stamp, most: Most) -> list[Claimed]:
        """Take due rows of `lane`, oldest first."""
        # The statement has the fence in it, so that it can be a transaction by itself.
        dialect = self._database.dialect
        return self._database.single(
            lambda connection: dialect.claim(connection, lane, stamp, most)
        )

    def claim_foreign(
        self, lane: Lane, stamp: Stamp, most: Most, *, owners: Collection[int]
    ) -> list[Claimed]:
        """Take due rows of `lane` in buckets whose `owners` do not serve its kind."""

        def work(connection: Connection) -> list[Claimed]:
            dialect = self._database.dialect
            return claim.claim_foreign(
                connection, dialect, lane, stamp=stamp, most=most, owners=owners
            )

        return self._database.write_as(stamp.worker, work, lost=[])

    def claim_one(
        self, number: int, stamp: Stamp, *, max_lost: int, is_rested: bool
    ) -> list[Claimed]:
        """Take one row that no worker can have read."""

        def work(connection: Connection) -> list[Claimed]:
            return claim.claim_one(
                connection, number, stamp, max_lost=max_lost, is_rested=is_rested
            )

        return self._database.write_as(stamp.worker, work, lost=[])

    def claim_offered(self, kind: str, stamp: Stamp, *, limit: int) -> list[Claimed]:
        """Take offered rows of a kind, the oldest first."""

        def work(connection: Connection) -> list[Claimed]:
            dialect = self._database.dialect
            return offer.claim(connection, dialect, kind, stamp=stamp, limit=limit)

        return self._database.write_as(stamp.worker, work, lost=[])

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
        """Offer up to `count` due rows of `lane` in the worker's buckets.

        Not those in `unless`, and not the first `spare` of the others.
        """

        def work(connection: Connection) -> Made:
            dialect = self._database.dialect
            return offer.make(
                connection, dialect, lane, most, unless=unless, spare=spare, count=count
            )

        return self._database.write_as(worker, work, lost=Made([], 0))

    def put_back(self, rows: Sequence[Claimed]) -> None:
        """Make claimed rows that have not begun waiting again."""
        self._database.write(lambda connection: held.put_back(connection, rows))

    def rescue(
        self, stamp: Stamp, triage: Triage, *, limit: int, fail_as_poison: FailAsPoison
    ) -> Rescued:
        """Take over rows whose worker was marked left; each of them has been lost once more.

        Poison fails in the same transaction, so that no worker ever holds a poison row.
        """

        def work(connection: Connection) -> Rescued:
            dialect = self._database.dialect
            kinds = triage.max_lost.keys()
            abandoned = dialect.abandoned(connection, kinds, now=stamp.now, limit=limit)
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
                    dialect.rescue(connection, ids, stamp, attempt=attempt)
            if rescued.put_back:
                held.put_back(connection, rescued.put_back)
            if rescued.poison:
                fail_as_poison(connection, rescued.poison)
            return rescued

        return self._database.write_as(stamp.worker, work, lost=Rescued())

    def some_quarantined(
        self,
        lanes: Iterable[Lane],
        lives: Callable[[str], int],
        *,
        buckets: Iterable[range],
        now: int,
    ) -> bool:
        """Whether a due row of `lanes` in these buckets must run alone."""
        return self._database.read(
            lambda connection: claim.some_quarantined(
                connection, lanes, lives, buckets=buckets, now=now
            )
        )
