"""The ring, as an operator sees it: who is there, who owns what, and who came and went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass.clock import SECOND, Clock
from windlass.core.fetch import store as fetch_store
from windlass.core.ring import store as ring_store
from windlass.core.ring.store import Bucket, WorkerView
from windlass.core.shard.fleet import Fleet
from windlass.database.connection import Connection
from windlass.database.database import TRIES, Database
from windlass.database.dialect.base import Dialect
from windlass.errors import BadInput
from windlass.ring import assign, tokens_of
from windlass.value.bucket import BUCKETS
from windlass.view.field import Moment, exposed
from windlass.view.listing import Listing

MOVES = 20


@dataclass(frozen=True)
class MemberView:
    """A worker of the ring. Shares are in percent of all buckets.

    It owns `buckets`, in contiguous runs, and is to own `wanted`. `idle` is how many rows it could
    start while it has none.
    """

    id: int
    token: int
    share: float
    wanted_share: float
    buckets: list[range]
    wanted: range
    host: str
    pid: int
    kinds: list[str]
    idle: int
    joined_at: Moment
    lease_until: Moment
    lease_seconds: float
    is_alive: bool


@dataclass(frozen=True)
class RingMove:
    """A worker joined or left the ring.

    `why` it left, or the id `before`, under which the same process had been there until it joined.
    """

    at: Moment
    what: str
    worker: int
    host: str
    pid: int
    why: str | None
    before: int | None


@dataclass(frozen=True)
class RingView:
    """The ring of one database. Times are microseconds since the epoch.

    `careful` are buckets whose owner died and in which rows may wait from before `careful_to`.
    `moving` is how many buckets have not reached the worker that is to own them.
    """

    database: str
    now: Moment
    known_by: str
    members: list[MemberView]
    free: list[range]
    moving: int
    careful: list[range]
    careful_to: Moment | None
    offers: int
    moves: list[RingMove]

    @property
    @exposed
    def buckets(self) -> int:
        """How many buckets there are."""
        return BUCKETS

    @property
    @exposed
    def owned(self) -> int:
        """How many buckets have an owner."""
        return BUCKETS - sum(map(len, self.free))


def rings(fleet: Fleet, *, tries: int = TRIES) -> Listing[RingView]:
    """The ring of each shard; members in the order of the ring, moves newest first."""
    found = fleet.ask(lambda shard: look(shard.database, shard.clock, tries=tries))
    return Listing(found.values, found.missing)


def look(database: Database, clock: Clock, *, tries: int = TRIES) -> RingView:
    """The ring of one database."""
    now = clock.fresh()

    def read(connection: Connection) -> RingView:
        # In this order: an owner of a bucket is then among the workers, or has just left.
        buckets = ring_store.buckets(connection)
        workers = [view for view in ring_store.workers(connection) if view.kinds]
        members = _members(workers, buckets, now)
        owned = {number for member in members for run in member.buckets for number in run}
        careful = _careful(connection, database.dialect, buckets)
        return RingView(
            database=database.name,
            now=now,
            known_by=ring_store.known_by(connection),
            members=members,
            free=ring_store.runs_of(buckets.keys() - owned),
            moving=sum(
                buckets[number].owner != member.id for member in members for number in member.wanted
            ),
            careful=ring_store.runs_of(careful),
            careful_to=max(careful.values(), default=None),
            offers=fetch_store.offered_count(connection),
            moves=_moves(ring_store.recent(connection, limit=MOVES))[:MOVES],
        )

    return database.read(read, tries=tries)


def _members(
    workers: Sequence[WorkerView], buckets: Mapping[int, Bucket], now: int
) -> list[MemberView]:
    views = {view.id: view for view in workers}
    tokens = tokens_of(views)
    owned: dict[int, list[int]] = {number: [] for number in views}
    for number, found in buckets.items():
        if found.owner in owned:
            owned[found.owner].append(number)
    return [
        MemberView(
            id=number,
            token=tokens[number],
            share=100 * len(owned[number]) / BUCKETS,
            wanted_share=100 * len(wanted) / BUCKETS,
            buckets=ring_store.runs_of(owned[number]),
            wanted=wanted,
            host=views[number].host,
            pid=views[number].pid,
            kinds=views[number].kinds,
            idle=views[number].idle,
            joined_at=views[number].joined_at,
            lease_until=views[number].lease_until,
            lease_seconds=(views[number].lease_until - now) / SECOND,
            is_alive=views[number].lease_until >= now,
        )
        for number, wanted in assign(views).items()
    ]


def _careful(
    connection: Connection, dialect: Dialect, buckets: Mapping[int, Bucket]
) -> dict[int, int]:
    """The buckets in which something may wait from before their owner died, and when it did."""
    if not any(found.careful_to for found in buckets.values()):
        return {}
    tiers = dialect.tiers(connection, fetch_store.kinds_waiting(connection))
    oldest = min((tier.due_at for tier in tiers), default=None)
    return {
        number: found.careful_to
        for number, found in buckets.items()
        if oldest is not None and found.careful_to >= oldest
    }


def _moves(workers: Sequence[WorkerView]) -> list[RingMove]:
    """When each of them came and went, newest first."""
    moves: list[RingMove] = []
    for view in workers:
        place = view.id, view.host, view.pid
        before = [
            other.id
            for other in workers
            if (other.host, other.pid) == (view.host, view.pid)
            and other.left_at is not None
            and other.left_at <= view.joined_at
        ]
        moves.append(RingMove(view.joined_at, "joined", *place, None, max(before, default=None)))
        if view.left_at is not None:
            moves.append(RingMove(view.left_at, "left", *place, view.left_why, None))
    # At the same moment, a leave comes before a join.
    return sorted(moves, key=lambda move: (move.at, move.what == "joined"), reverse=True)


@dataclass(frozen=True)
class PlannedMember:
    """A member of the ring, before and after more workers join; None where it is not there."""

    id: str
    is_new: bool
    token: int | None
    buckets: range | None
    new_token: int | None
    new_buckets: range | None


@dataclass(frozen=True)
class JoinPlan:
    """What becomes of the ring of one database when more workers join."""

    database: str
    joining: int
    # How many of all buckets get another owner.
    moving: int
    members: list[PlannedMember]


def plan(found: RingView, joining: int) -> JoinPlan:
    """The ring before and after `joining` workers join.

    The tokens are certain. Which of them a new worker gets follows from the id that it is given
    when it joins, so their places among the others are an example.
    """
    if not 1 <= joining <= BUCKETS:
        raise BadInput(f"--plan +{joining}: give how many workers join, from +1 to +{BUCKETS}")
    now = [str(member.id) for member in found.members]
    then = [*now, *(f"new {number}" for number in range(1, joining + 1))]
    before, after = assign(_ids(now)), assign(_ids(then))
    tokens, new_tokens = tokens_of(_ids(now)), tokens_of(_ids(then))
    owner = {bucket: member for member, owned in before.items() for bucket in owned}
    moving = sum(owner.get(bucket) != member for member, owned in after.items() for bucket in owned)
    members = [
        PlannedMember(
            id=str(member),
            is_new=member not in before,
            token=tokens.get(member),
            buckets=before.get(member),
            new_token=new_tokens[member],
            new_buckets=owned,
        )
        for member, owned in after.items()
    ]
    return JoinPlan(found.database, joining, moving, members)


def _ids(names: Sequence[str]) -> list[int | str]:
    return [int(name) if name.isdigit() else name for name in names]
