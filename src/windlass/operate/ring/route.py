"""The ring of each shard: who is there, who owns which arc, who came and went."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import BeforeValidator

from windlass.operate import fan_out as gather
from windlass.operate.ring.operate import RingView
from windlass.operate.shard import operate as shard
from windlass.value.bucket import BUCKETS
from windlass.web.request import ReadyConsole
from windlass.web.view import Moment, Names, View, many

router = APIRouter(tags=["ring"])


class ArcOut(View):
    """Buckets from `begin` up to and without `end`; there are 256 in all."""

    begin: int
    end: int


def _arc(given: object) -> object:
    return ArcOut(begin=given.start, end=given.stop) if isinstance(given, range) else given


Arc = Annotated[ArcOut, BeforeValidator(_arc)]


class MemberOut(View):
    """A worker of the ring. Shares are in percent. It owns `buckets`, and is to own `wanted`."""

    id: int
    token: int
    share: float
    wanted_share: float
    buckets: list[Arc]
    wanted: Arc
    host: str
    pid: int
    kinds: Names
    idle: int
    joined_at: Moment
    lease_until: Moment
    is_alive: bool


class MoveOut(View):
    """A worker joined or left; `why` it left, or the id it had `before` it joined again."""

    at: Moment
    what: str
    worker: int
    host: str
    pid: int
    why: str | None
    before: int | None


class RingOut(View):
    """The ring of one shard; `moving` buckets have not reached the worker that is to own them."""

    database: str
    now: Moment
    known_by: str
    buckets: int
    owned: int
    members: list[MemberOut]
    free: list[Arc]
    moving: int
    careful: list[Arc]
    careful_to: Moment | None
    offers: int
    moves: list[MoveOut]


class RingsOut(View):
    """The rings of all shards."""

    rings: list[RingOut]
    missing: Names


class ShardOut(View):
    """A shard. Counts are exact up to 10,000; null if it does not answer."""

    number: int
    database: str
    place: int | None
    up: bool
    draining: bool
    unmoved: bool
    waiting: int | None
    running: int | None
    ended: int | None
    moving: int | None
    workers: int | None


@router.get("/rings")
def rings(console: ReadyConsole) -> RingsOut:
    """The ring of each shard."""
    found = gather.rings(console.app.fleet)
    return RingsOut(rings=[_ring(each) for each in found], missing=found.missing)


@router.get("/shards")
def shards(console: ReadyConsole) -> list[ShardOut]:
    """All shards, in the order of the app's list."""
    return many(ShardOut, shard.listing(console.app.fleet))


def _ring(found: RingView) -> RingOut:
    members = [{**vars(each), "is_alive": each.lease_until >= found.now} for each in found.members]
    return RingOut.model_validate(
        {
            **vars(found),
            "buckets": BUCKETS,
            "owned": found.owned,
            "members": members,
        }
    )
