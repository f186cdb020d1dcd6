"""Shards: show them, drain one, and move rows to where they belong."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.move import Mover, Pass
from windlass.core.shard.shard import Shard
from windlass.core.shard.store import shard as store
from windlass.core.shard.store.shard import Load
from windlass.database.connection import Connection
from windlass.errors import BadInput
from windlass.value.shard import Roster
from windlass.value.task import COUNTED_EXACTLY

# Every process that enqueues learns within a second that a shard drains.
HEARD_SECONDS = 2.5
LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class ShardView:
    """A shard as people see it. Counts are exact up to 10,000."""

    number: int
    database: str
    place: int | None
    up: bool
    draining: bool
    # Whether some of its rows may belong to other shards.
    unmoved: bool
    waiting: int | None = None
    running: int | None = None
    ended: int | None = None
    moving: int | None = None
    workers: int | None = None


@dataclass(frozen=True)
class MoveResult:
    """What a move did. Rows that are `busy` were running; `stuck` ones have keys that are taken.

    `sweeps` are those of a drained shard: they go on there, and once it is out of the list they
    begin a new round in another one.
    """

    moved: int
    busy: int
    stuck: list[str]
    sweeps: list[str]

    @property
    def is_done(self) -> bool:
        return not (self.busy or self.stuck)


def listing(fleet: Fleet) -> list[ShardView]:
    """All shards, in the order of the list."""

    def load(shard: Shard) -> Load:
        def read(connection: Connection) -> Load:
            return store.load(connection, now=shard.clock.fresh(), most=COUNTED_EXACTLY)

        return shard.database.read(read)

    found = dict(fleet.fan_out(load).found)
    return [_view(fleet, shard, found.get(shard)) for shard in fleet.shards]


def drain(fleet: Fleet, name: str, *, undo: bool = False, lost: bool = False) -> Roster:
    """Drain a shard, or undo that; or give up a shard that is lost, with all its rows."""
    _must_be_several(fleet)
    ring = _ring(fleet, name)
    if lost:
        return fleet.change(lambda roster: roster.lost(ring))
    if undo:
        Mover(fleet, fleet.at(ring), dead_after=0).take_back()
        return fleet.change(lambda roster: roster.opened(ring))
    return fleet.change(lambda roster: roster.drained(ring) if ring in roster.layout else roster)


def move(
    fleet: Fleet,
    name: str,
    *,
    dead_after: int,
    due: bool = False,
    wait: bool = True,
    tell: Callable[[str], None] = lambda _line: None,
) -> MoveResult:
    """Move the rows of a shard that belong elsewhere; of one that is drained, all.

    Waits for rows that run, unless told not to. It can be repeated after any end. `tell` gets a
    line whenever there is something new to tell.
    """
    _must_be_several(fleet)
    source = fleet.opened(fleet.named(name))
    mover = Mover(fleet, source, dead_after=dead_after, due=due)
    moved, quiet_since, told = 0, None, ""
    while True:
        done = mover.walk()
        moved += done.moved
        line = _progress(done, moved)
        if line != told and not done.is_clean:
            tell(line)
        told = line
        if done.is_clean:
            quiet_since = quiet_since or time.monotonic()
            if time.monotonic() - quiet_since >= HEARD_SECONDS or not _may_come(fleet, source):
                settle = partial(_settled, ring=source.ring, layout=done.layout)
                if source.ring not in _unmoved(fleet.change(settle)):
                    return MoveResult(moved, 0, [], _sweeps(fleet, source))
                quiet_since = None
        else:
            quiet_since = None
            only_stuck = bool(done.stuck) and not (done.moved or done.busy)
            if only_stuck or (not wait and not done.moved):
                return MoveResult(moved, done.busy, done.stuck, _sweeps(fleet, source))
        if not done.moved:
            time.sleep(LOOK_SECONDS)


def _progress(done: Pass, moved: int) -> str:
    rows = done.busy - done.runs
    line = f"moved {_counted(moved, 'row')}"
    if rows > 0:
        line += (
            f"; waiting for {_counted(rows, 'row')} that run or are due; "
            "those that are due go when its workers are stopped"
        )
    if done.runs:
        line += (
            f"; waiting for {_counted(done.runs, 'run')} of flows; a run ends where it is, and "
            "is then moved with all its nodes"
        )
    return line


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _sweeps(fleet: Fleet, source: Shard) -> list[str]:
    """The sweeps that a drained shard still has."""
    if not fleet.roster.is_draining(source.ring):
        return []
    asked = [face.stays for face in fleet.faces.all if face.stays is not None]
    return source.database.read(lambda conn: [name for ask in asked for name in ask(conn)])


def _may_come(fleet: Fleet, source: Shard) -> bool:
    """Whether processes that do not know yet that it drains may still write rows to it."""
    roster = fleet.roster
    return roster.is_draining(source.ring) and source.ring in roster.needed


def _settled(roster: Roster, *, ring: str, layout: tuple[str, ...]) -> Roster:
    # If the shards have changed since the walk, its rows may belong elsewhere again.
    return roster.settled(ring) if roster.layout == layout and ring in _unmoved(roster) else roster


def _unmoved(roster: Roster) -> set[str]:
    return {ring for past in roster.past for ring in past.unmoved}


def _view(fleet: Fleet, shard: Shard, load: Load | None) -> ShardView:
    roster = None if fleet.single is not None else fleet.roster
    ring = None if shard.row is None else shard.ring
    return ShardView(
        number=shard.index,
        database=shard.name,
        place=None if shard.row is None else shard.row.place,
        up=load is not None,
        draining=roster is not None and ring is not None and roster.is_draining(ring),
        unmoved=roster is not None and ring in _unmoved(roster),
        **({} if load is None else load._asdict()),
    )


def _ring(fleet: Fleet, name: str) -> str:
    """The shard of that name, also if it does not answer."""
    shard = fleet.named(name)
    if shard.row is not None:
        return shard.ring
    for ring, peer in fleet.roster.peers.items():
        if peer.name == shard.name:
            return ring
    raise BadInput(f"{shard.name} does not answer, and the other shards know it by another URL")


def _must_be_several(fleet: Fleet) -> None:
    fleet.prepare()
    if fleet.single is not None:
        raise BadInput("this app has one database; shards are drained into others: give it more")
