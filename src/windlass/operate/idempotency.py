"""Idempotency keys: a request that is sent again under its key gets the same answer, and does
nothing again.

The key, what the request does, and the answer are written in one transaction. So either all of
them are there or none is, also if the process dies; and of two equal requests at the same moment,
the second waits for the first and gets its answer. An error is not kept: nothing was done.

With several shards the key is where the request does its work. What a request does in other
shards is not in that transaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple

from windlass.clock import SECOND
from windlass.core.idempotency import store
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.database.connection import Connection
from windlass.database.joined import joining
from windlass.errors import NotPossible
from windlass.value.bucket import home_name

KEPT = 24 * 60 * 60 * SECOND
# By what requests without a key or a lane find their home.
HOME = "windlass:idempotency"


class OnceRequest(NamedTuple):
    """A request with an Idempotency-Key: who sent it, its key, and what is in it."""

    caller: str
    key: str
    content: bytes

    @property
    def id(self) -> str:
        """By what it is known: each caller has keys of its own."""
        return hashlib.sha256(f"{self.caller}\0{self.key}".encode()).hexdigest()


class RequestHome(NamedTuple):
    """What a request is about: a kind, and the key or the lane that decides the shard."""

    kind: str
    key: str | None = None
    lane: str | None = None


class GivenAnswer(NamedTuple):
    """The answer to a request, and whether it was given before."""

    text: str
    is_replayed: bool


def home(fleet: Fleet, request: OnceRequest, place: RequestHome) -> Shard:
    """The shard where a request does its work; without a key or a lane, one that stays the same."""
    if place.lane is not None:
        return fleet.home(place.kind, home_name(place.lane))
    if place.key is not None:
        return fleet.home(place.kind, place.key)
    return fleet.home(HOME, request.id)


def once(shard: Shard, request: OnceRequest, work: Callable[[Connection], str]) -> GivenAnswer:
    """Do the work of a request, unless it was done; what `work` does here is in one transaction."""
    database, content = shard.database, hashlib.sha256(request.content).hexdigest()
    database.schema.need(store.TABLES, "an Idempotency-Key")
    until = shard.clock.now() + KEPT

    def attempt(connection: Connection) -> GivenAnswer:
        before = store.take(
            connection, database.dialect, request.id, content=content, forget_at=until
        )
        if before is not None:
            if before.content != content or before.answer is None:
                raise NotPossible(
                    f"the Idempotency-Key {request.key!r} was used for another request; give each "
                    "request a key of its own"
                )
            return GivenAnswer(before.answer, is_replayed=True)
        with joining(database, connection):
            answer = work(connection)
        store.keep(connection, request.id, answer)
        return GivenAnswer(answer, is_replayed=False)

    return database.write(attempt)
