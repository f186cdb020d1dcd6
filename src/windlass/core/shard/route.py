"""New rows in several shards: a row with a key goes to its home, other rows to a shard that is up.

All rows for one shard are written in one transaction. If the keys of one call belong to several
shards, they are written shard by shard; if a later shard refuses, the rows written before are
deleted, unless they have started.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import OUTAGES, Shard
from windlass.core.shard.store import shard as store
from windlass.core.task.declare import How
from windlass.core.task.enqueue import Guard, Vanished
from windlass.core.task.fate import Unanswered
from windlass.core.task.kind import Kind
from windlass.core.task.store import task
from windlass.database.connection import is_alike, joined
from windlass.database.database import first_line
from windlass.errors import BadConnection, BadInput, DatabaseUnavailable, DuplicateKey
from windlass.value.bucket import home_name
from windlass.value.shard import Roster
from windlass.value.task import Call


class Router:
    """Writes new tasks into the shards they belong to."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def submit(
        self, kind: Kind, calls: Sequence[Call], how: How, *, new: set[int] | None = None
    ) -> list[int]:
        """Write a row for each call; the ids, in order. `new` gets the ids of new rows."""
        if kind.lane is not None or how.lane is not None:
            calls = self._laned(kind, calls, how)
        single = self._fleet.single
        if single is not None:
            return single.enqueue.submit(kind, calls, how, new=new)
        if how.conn is not None:
            shard = self.shard_of(how.conn)
            return self._fleet.keyed(lambda: self._join(shard, kind, calls, how, new=new))
        if _has_home(calls):
            return self._submit_keyed(kind, calls, how, new=new)
        ids = self._submit_anywhere(kind, calls, how)
        if new is not None:
            new.update(ids)
        return ids

    def _laned(self, kind: Kind, calls: Sequence[Call], how: How) -> list[Call]:
        """The calls with their lanes: the lane of `how`, or else as the kind declares it."""
        laned = [
            call._replace(lane=how.lane or kind.lane_of(call.args, call.kwargs)) for call in calls
        ]
        keyed = next((each for each in laned if each.lane and each.key is not None), None)
        if keyed is None:
            return laned
        what = f"kind {kind.name!r}: key {keyed.key!r} and lane {keyed.lane!r}"
        if how.on_conflict == "replace":
            raise BadInput(
                f'{what}: on_conflict="replace" would move a task to another place in its lane; '
                'use "skip" or "raise"'
            )
        if self._fleet.single is None:
            raise BadInput(
                f"{what} may belong to different shards, where neither could be kept; give a key "
                "or a lane"
            )
        return laned

    def _submit_anywhere(self, kind: Kind, calls: Sequence[Call], how: How) -> list[int]:
        """Write all rows into one shard, in one transaction; if it is down, into the next one."""
        errors: list[str] = []
        for shard in self._fleet.taking():
            try:
                return shard.enqueue.submit(kind, calls, how, hasty=True)
            except OUTAGES as problem:
                shard.failed(problem)
                if isinstance(problem, Unanswered):
                    raise
                errors.append(first_line(problem))
        names = tuple(shard.name for shard in self._fleet.shards)
        raise DatabaseUnavailable(
            f"kind {kind.name!r}: no shard takes a task now; none of {', '.join(names)} answers"
            + "".join(f"; {line}" for line in errors),
            missing=names,
        )

    def _submit_keyed(
        self, kind: Kind, calls: Sequence[Call], how: How, *, new: set[int] | None
    ) -> list[int]:
        ids: dict[int, int] = {}
        written: dict[Shard, set[int]] = {}
        try:
            # If the shards change in the middle, what was written stays, and the rest is routed.
            self._fleet.keyed(lambda: self._write_rest(kind, calls, how, ids=ids, written=written))
        except Exception as problem:
            self._take_back(written, problem)
            raise
        if new is not None:
            new.update(*written.values())
        return [ids[index] for index in range(len(calls))]

    def _write_rest(
        self,
        kind: Kind,
        calls: Sequence[Call],
        how: How,
        *,
        ids: dict[int, int],
        written: dict[Shard, set[int]],
    ) -> None:
        """Write the calls that have no id in `ids`, shard by shard, and add their ids."""
        roster = self._fleet.roster
        groups = self._groups(roster, kind, calls, unless=ids)
        if len(groups) > 1 and how.on_conflict == "raise":
            self._check_free(kind, calls, groups)
        for target, indexes in groups.items():
            chosen = [calls[index] for index in indexes]
            new: set[int] = set()
            guard = self._fleet.guard(target.shard, roster.number)
            made = self._write(target, kind, chosen, how, guard=guard, new=new)
            written.setdefault(target.shard, set()).update(new)
            ids |= zip(indexes, made, strict=True)

    @staticmethod
    def _write(
        target: Target,
        kind: Kind,
        calls: Sequence[Call],
        how: How,
        *,
        guard: Guard,
        new: set[int],
    ) -> list[int]:
        shard = target.shard
        try:
            if not target.is_home:
                return shard.enqueue.meet(kind, calls, how, guard=guard)
            hasty = shard.is_down_for_long
            return shard.enqueue.submit(kind, calls, how, guard=guard, hasty=hasty, new=new)
        except Unanswered as problem:
            shard.failed(problem)
            raise
        except OUTAGES as problem:
            what = f"kind {kind.name!r}: {_named(calls[0])} belongs to"
            raise shard.unavailable(what, problem) from problem

    @staticmethod
    def _take_back(written: Mapping[Shard, set[int]], problem: Exception) -> None:
        """Delete the rows that this call wrote into other shards."""
        for shard, new in written.items():
            if not new:
                continue
            try:
                left = len(new) - shard.enqueue.take_back(sorted(new))
            except OUTAGES:
                left = len(new)
            if left:
                problem.add_note(
                    f"{left} tasks in {shard.name} have started, or could not be deleted"
                )

    def _check_free(
        self, kind: Kind, calls: Sequence[Call], groups: dict[Target, list[int]]
    ) -> None:
        for (shard, _), indexes in groups.items():
            keys = {key for index in indexes if (key := calls[index].key) is not None}
            if not keys:
                continue
            look = partial(
                task.find_keys, dialect=shard.database.dialect, kind=kind.name, keys=keys
            )
            for key, (number, status) in shard.database.read(look).items():
                raise DuplicateKey(kind.name, key, task_id=number, status=str(status))

    def _groups(
        self, roster: Roster, kind: Kind, calls: Sequence[Call], *, unless: Container[int] = ()
    ) -> dict[Target, list[int]]:
        """Which calls go to which shard: their home, unless their key is still in another shard."""
        keys = {index: _home(call) for index, call in enumerate(calls) if index not in unless}
        targets = targets_of(self._fleet, roster, kind.name, keys.values())
        groups: dict[Target, list[int]] = {}
        for index, key in keys.items():
            groups.setdefault(targets[key], []).append(index)
        return groups

    def _join(
        self,
        shard: Shard,
        kind: Kind,
        calls: Sequence[Call],
        how: How,
        *,
        new: set[int] | None,
    ) -> list[int]:
        """Write rows in the caller's transaction: all keys must belong to its shard."""
        roster = self._fleet.roster
        guard = self._fleet.guard(shard, roster.number)
        if not _has_home(calls):
            if shard.ring not in roster.needed:
                raise BadConnection(
                    f"conn is on {shard.name}, which was drained and takes no tasks; "
                    "enqueue without conn"
                )
            return shard.enqueue.submit(kind, calls, how, guard=guard, new=new)
        ids: dict[int, int] = {}
        for target, indexes in self._groups(roster, kind, calls).items():
            chosen = [calls[index] for index in indexes]
            if target.shard is not shard:
                raise BadConnection(
                    f"kind {kind.name!r}: {_named(chosen[0])} belongs to {target.shard.name}, "
                    f"but conn is on {shard.name}; enqueue it without conn, or without a "
                    f"{'key' if chosen[0].lane is None else 'lane'}"
                )
            write = shard.enqueue.meet
            if target.is_home:
                write = partial(shard.enqueue.submit, new=new)
            ids |= zip(indexes, write(kind, chosen, how, guard=guard), strict=True)
        return [ids[index] for index in range(len(calls))]

    def shard_of(self, conn: object) -> Shard:
        """The shard whose database a connection is on."""
        alike = [shard for shard in self._fleet.shards if is_alike(conn, shard.database.dialect)]
        # One question for all shards whose tables have the same place in their database.
        for database in {shard.database.dialect.schema: shard.database for shard in alike}.values():
            with joined(conn, database.engine, database.dialect) as executor:
                ring = store.ring_of(executor, database.dialect)
            for shard in alike:
                if shard.row is not None and shard.row.ring == ring:
                    return shard
        names = ", ".join(shard.name for shard in self._fleet.shards)
        raise BadConnection(
            f"conn is not a connection to a shard of this app ({names}); a task can only join a "
            "transaction in one of its shards"
        )


def _has_home(calls: Sequence[Call]) -> bool:
    """Whether the shard of these calls is decided by their keys, or by their lanes."""
    return calls[0].key is not None or any(call.lane is not None for call in calls)


def _home(call: Call) -> str:
    """The key that decides about the shard. A call without any may go to any shard."""
    if call.lane is not None:
        return home_name(call.lane)
    return str(call.key)


def _named(call: Call) -> str:
    return f"key {call.key!r}" if call.lane is None else f"lane {call.lane!r}"


class Target(NamedTuple):
    """The shard for a key: its home, or the shard that still has it, where no new row is made."""

    shard: Shard
    is_home: bool


def targets_of(fleet: Fleet, roster: Roster, kind: str, keys: Collection[str]) -> dict[str, Target]:
    """The shard for each key, by a roster that the writing transaction checks again."""
    targets: dict[str, Target] = {}
    earlier: dict[Shard, list[str]] = {}
    coming: set[str] = set()
    for key in keys:
        if key not in targets:
            route = fleet.route_by(roster, kind, key)
            targets[key] = Target(route.home, is_home=True)
            for shard in route.earlier:
                earlier.setdefault(shard, []).append(key)
    for shard, listed in earlier.items():
        try:
            held = fleet.held(shard, kind, listed, number=roster.number)
        except OUTAGES as problem:
            what = f"kind {kind!r}: key {listed[0]!r} may still be in"
            raise shard.unavailable(what, problem) from problem
        targets |= dict.fromkeys(held.there, Target(shard, is_home=False))
        coming |= held.coming
    _meet_at_home(fleet, roster, kind, targets, coming)
    return targets


def _meet_at_home(
    fleet: Fleet, roster: Roster, kind: str, targets: dict[str, Target], coming: set[str]
) -> None:
    """Keys that move from their home to another shard, where no worker runs the copy yet.

    Only the row at home may be changed, and no new row be made.
    """
    homes: dict[Shard, list[str]] = {}
    for key in coming:
        if targets[key].is_home:
            homes.setdefault(targets[key].shard, []).append(key)
    for shard, keys in homes.items():
        if fleet.held(shard, kind, keys, number=roster.number).there != set(keys):
            # In a moment the copy is the row, or there is none.
            raise Vanished
        targets |= dict.fromkeys(keys, Target(shard, is_home=False))
