"""The loops of the raw SQL limit: claim or read, then finish, until ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from bench.contract import url
from bench.raw.session import Session
from bench.tally import Tally

CLAIM = 1000
LEASE_MICROSECONDS = 30_000_000
IDLE_SECONDS = 0.02
BUCKETS = 256


def work(variant: str, number: int, total: int) -> None:
    """Claim and finish until ended; process `number` of `total`."""
    session = Session(url())
    ran = Tally()
    reader = Reader(session, number, total)
    take = reader.read if variant == "read" else partial(claim, session)
    while True:
        ids = session.persist(take)
        if not ids:
            time.sleep(IDLE_SECONDS)
            continue
        ran.add(len(ids))
        session.persist(partial(finish, session, ids, keep=variant == "update"))


def claim(session: Session) -> list[int]:
    """Take up to `CLAIM` due rows by writing a fresh batch number into them."""
    now = microseconds()
    stamp = {"batch": time.time_ns(), "now": now, "lease_end": now + LEASE_MICROSECONDS}
    statements = session.statements
    with session.transaction():
        if statements.stamp is None:
            rows = session.rows(statements.claim, limit=CLAIM, **stamp)
        else:
            rows = session.rows(statements.claim, limit=CLAIM, now=now)
            if rows:
                session.execute(statements.stamp, ids=[row[0] for row in rows], **stamp)
    return [row[0] for row in rows]


class Reader:
    """The owner's read: this process's share of the buckets, in due order from a cursor."""

    def __init__(self, session: Session, number: int, total: int) -> None:
        self._session = session
        self._low = number * BUCKETS // total
        self._high = (number + 1) * BUCKETS // total - 1
        self._after = 0

    def read(self) -> list[int]:
        with self._session.transaction():
            rows = self._session.rows(
                self._session.statements.read,
                now=microseconds(),
                after=self._after,
                low=self._low,
                high=self._high,
                limit=CLAIM,
            )
        self._after = rows[-1][1] if rows else 0
        return [row[0] for row in rows]


def finish(session: Session, ids: Sequence[int], *, keep: bool) -> None:
    """End the rows: keep them as succeeded, or delete them."""
    with session.transaction():
        if keep:
            session.execute(session.statements.update, ids=session.ids(ids), now=microseconds())
        else:
            session.execute(session.statements.delete, ids=session.ids(ids))


def microseconds() -> int:
    """Now, as the table counts time."""
    return time.time_ns() // 1000
