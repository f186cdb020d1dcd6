"""How several databases become the shards of one app, and how a new database joins them.

Who is the authority? The roster at its anchor: the shard with the lowest place among those that
take rows. A change is written there first, and only on top of the version before it. The process
that made the change tells the other shards, and so does every process that meets a shard with an
older roster.

What does each failure do? The anchor is away: nothing changes. The process that made a change dies
half-way: the next process that looks passes the change on. A shard was away: it gets the roster
before anything is written into it, because each transaction that writes a key compares the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from windlass import telemetry
from windlass.core.limit import store as limit_store
from windlass.core.limit.store import Switch
from windlass.core.shard.shard import Shard
from windlass.core.shard.store import shard as store
from windlass.database.connection import Connection
from windlass.errors import BadDatabase, DatabaseUnavailable
from windlass.value.shard import Roster, first_roster

PROPOSALS = 10


def assemble(shards: Sequence[Shard]) -> Roster:
    """The roster of the app with these databases; new databases join it.

    A database that does not answer counts if the others know it.
    """
    there = [shard for shard in shards if shard.row is not None]
    _tell_apart(there)
    known = [shard.row.roster for shard in there if shard.row and shard.row.roster]
    roster = max(known, key=lambda each: each.number) if known else _begin(shards, there)
    for shard in there:
        if shard.ring not in roster.peers:
            roster = _join(shard, roster, there)
    _check_complete(shards, there, roster)
    for shard in there:
        tell(shard, roster)
    return roster


def propose(shards: Sequence[Shard], roster: Roster, change: Callable[[Roster], Roster]) -> Roster:
    """Make `change` to the newest roster; the roster after that."""
    for _ in range(PROPOSALS):
        wanted = change(roster)
        if wanted == roster:
            return roster
        # If the change removes the anchor, the next anchor decides.
        anchor = roster.anchor if roster.anchor in wanted.needed else wanted.anchor
        at = next((shard for shard in shards if shard.row and shard.ring == anchor), None)
        if at is None:
            name = roster.peers[anchor].name
            raise DatabaseUnavailable(
                f"the shards cannot be changed now: {name} decides on changes and does not answer",
                missing=(name,),
            )
        tell(at, roster)
        if _decide(at, wanted):
            return wanted
        roster = _known_at(at)
    raise DatabaseUnavailable("other processes keep changing the shards; try again")


def tell(shard: Shard, roster: Roster) -> None:
    """Write the roster into a shard, unless it has a newer one."""
    if shard.row is not None and shard.row.number >= roster.number:
        return
    dialect = shard.database.dialect
    shard.row = shard.database.write(lambda connection: store.push(connection, dialect, roster))


def _decide(anchor: Shard, roster: Roster) -> bool:
    dialect = anchor.database.dialect
    decided = anchor.database.write(lambda connection: store.propose(connection, dialect, roster))
    anchor.look()
    return decided


def _known_at(shard: Shard) -> Roster:
    assert shard.row is not None
    assert shard.row.roster is not None
    return shard.row.roster


def _begin(shards: Sequence[Shard], there: Sequence[Shard]) -> Roster:
    """The first roster of these databases: at most one of them may have tasks."""
    _all_must_answer(shards, there)
    used = [shard for shard in there if shard.database.read(store.has_tasks)]
    if len(used) > 1:
        raise BadDatabase(_have_tasks(used[1], used[0]))
    for shard in there:
        _check_shard(shard)
    names = {shard.ring: shard.name for shard in there}
    first = first_roster(names, used=used[0].ring if used else None)
    anchor = next(shard for shard in there if first.peers[shard.ring].place == 0)
    for shard in there:
        if shard is not anchor:
            _copy_switches(anchor, shard)
    return first if _decide(anchor, first) else _known_at(anchor)


def _join(shard: Shard, roster: Roster, there: Sequence[Shard]) -> Roster:
    assert shard.row is not None
    if shard.row.roster is not None:
        peers = shard.row.roster.peers
        others = ", ".join(peer.name for ring, peer in peers.items() if ring != shard.ring)
        raise BadDatabase(
            f"{shard.name} is a shard of another app, together with {others}; give an empty "
            "database"
        )
    if shard.database.read(store.has_tasks):
        raise BadDatabase(_have_tasks(shard, there[0]))
    _check_shard(shard)
    other = next(each for each in there if each.ring in roster.peers)
    _copy_switches(other, shard)

    def join(found: Roster) -> Roster:
        return found if shard.ring in found.peers else found.joined(shard.ring, shard.name)

    roster = propose(there, roster, join)
    telemetry.emit("shard.joined", shard=shard.name, place=roster.peers[shard.ring].place)
    return roster


def _tell_apart(there: Sequence[Shard]) -> None:
    """Refuse a database that is given twice; an empty copy of another one gets a new name."""
    for index, shard in enumerate(there):
        for other in there[:index]:
            if shard.ring == other.ring and not (_rename(shard, other) or _rename(other, shard)):
                raise BadDatabase(
                    f"{other.name} and {shard.name} are the same database, or copies of one; "
                    "give each shard its own database"
                )


def _rename(copy: Shard, original: Shard) -> bool:
    """Give `copy` a new name if it is empty; whether it and the original are two databases."""
    assert copy.row is not None
    if copy.row.roster is not None or copy.database.read(store.has_tasks):
        return False
    ring = copy.ring
    copy.database.write(lambda connection: store.rename(connection, ring))
    return copy.look().ring != original.look().ring


def _check_complete(shards: Sequence[Shard], there: Sequence[Shard], roster: Roster) -> None:
    """Refuse a list without a shard that has rows: keys would be looked for in the wrong place."""
    absent = roster.needed - {shard.ring for shard in there}
    if len(absent) > len(shards) - len(there):
        listed = {shard.name for shard in shards}
        names = [roster.peers[ring].name for ring in absent]
        missing = ", ".join(sorted(name for name in names if name not in listed) or names)
        raise BadDatabase(
            f"this app does not list all of its shards: {missing} is missing. Give all of them to "
            "App(...); to take one out, first run windlass shard drain and windlass shard move"
        )


def check_alone(shard: Shard) -> None:
    """Refuse a single database that has other shards."""
    row = shard.row = shard.database.read(store.find)
    if row is not None and row.roster is not None:
        _check_complete([shard], [shard], row.roster)


def _all_must_answer(shards: Sequence[Shard], there: Sequence[Shard]) -> None:
    away = tuple(shard.name for shard in shards if shard not in there)
    if away:
        raise DatabaseUnavailable(
            f"{', '.join(away)} did not answer; when shards are used together for the first time, "
            "all of them must answer",
            missing=away,
        )


def _check_shard(shard: Shard) -> None:
    for face in shard.faces.all:
        if face.check_shard is not None:
            face.check_shard(shard.database)


def _copy_switches(source: Shard, target: Shard) -> None:
    """Give a new shard the switches that operators have set."""
    switches = source.database.read(limit_store.switches)
    dialect = target.database.dialect

    def work(connection: Connection) -> None:
        for name, found in switches.rows.items():

            def decide(before: Switch, found: Switch = found) -> Switch:
                return replace(found, breaker=before.breaker, has_odd_breaker=False)

            limit_store.change_switch(connection, dialect, name, decide)

    if switches.rows:
        target.database.write(work)


def _have_tasks(shard: Shard, other: Shard) -> str:
    return (
        f"{shard.name} has tasks, and {other.name} may use the same ids; a database that joins "
        "must be empty: finish its tasks first in an app with this database alone, or give another"
    )
