"""The routes of rings and shards."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter

from windlass.operate.ring import operate
from windlass.operate.ring.operate import RingView
from windlass.operate.shard import operate as shard
from windlass.operate.shard.operate import ShardView
from windlass.web.request import ReadyConsole
from windlass.web.view import answer

router = APIRouter(tags=["ring"])


@dataclass(frozen=True)
class Rings:
    """The rings of all shards."""

    rings: list[RingView]
    missing: tuple[str, ...]


@router.get("/rings", response_model=answer(Rings, without=("rings.members.lease_seconds",)))
def rings(console: ReadyConsole) -> Rings:
    """The ring of each shard."""
    found = operate.rings(console.app.fleet)
    return Rings(found, found.missing)


@router.get("/shards", response_model=answer(list[ShardView]))
def shards(console: ReadyConsole) -> list[ShardView]:
    """All shards, in the order of the app's list."""
    return shard.listing(console.app.fleet)
