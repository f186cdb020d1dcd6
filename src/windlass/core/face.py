"""What a face gives the kernel. The kernel knows no face by name.

A face is a package such as `sweep`. Its module `face` exports `FACE`; the app lists all faces. A
face leaves out the parts it does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from windlass.core.loop import Loop
from windlass.database.dialect.base import Dialect, Stamp

if TYPE_CHECKING:
    from windlass.clock import Clock
    from windlass.core.fetch.fetcher import HandOff
    from windlass.core.limit.gate import Gate
    from windlass.core.ring.ring import Ring
    from windlass.core.run.in_flight import InFlight
    from windlass.core.shard.fleet import Fleet
    from windlass.core.shard.shard import Shard
    from windlass.core.task.kind import Kind, Registry
    from windlass.database.connection import Connection, Executor
    from windlass.database.database import Database, Numbers
    from windlass.value.outcome import Outcome
    from windlass.value.task import Claimed


@dataclass(frozen=True)
class Face:
    """One face, as the kernel uses it."""

    name: str
    # A worker calls it before it joins: updates the rows to match the declarations.
    discover: Callable[[Site], None] | None = None
    # The loops that a worker runs beside its tasks.
    loops: Callable[[Workplace], Sequence[FaceLoop]] | None = None
    # Prepares fetched rows that belong to a flow.
    resolve: Callable[[Database, Sequence[Claimed]], Resolved] | None = None
    # Puts off fetched rows that belong to paused kinds of this face, such as nodes of a flow;
    # returns the others. And makes those of kinds that were resumed due again.
    hold: Callable[[Site, Sequence[Claimed], Collection[str]], Sequence[Claimed]] | None = None
    let_go: Callable[[Site, Collection[str]], int] | None = None
    # What the face writes with these outcomes; None if they do not concern it.
    ending: Callable[[Site, Sequence[Ended], int], Ending | None] | None = None
    # Releases what a leaving or dead worker held beside task rows; returns how much.
    hand_back: Callable[[Connection, int], int] | None = None
    abandon: Callable[[Connection, int], int] | None = None
    # An operator or a flow ended or restarted tasks, or a new task took the key of another.
    stopped: Callable[[Connection, Collection[int], int], None] | None = None
    restarted: Callable[[Connection, Collection[int]], None] | None = None
    replaced: Callable[[Executor, str, str], None] | None = None
    maintenance: Sequence[Chore] = ()
    # Maintenance deleted task rows.
    pruned: Callable[[Connection, Collection[int]], None] | None = None
    # What moves to another shard with task rows, and what moves by itself.
    along: Along | None = None
    move: Callable[[Fleet, Shard], Moved] | None = None
    # The names of what stays in a shard that is drained.
    stays: Callable[[Connection], list[str]] | None = None
    # The one shard that a kind of this face lives in.
    home: Callable[[Fleet, Kind], Shard] | None = None
    # Raises if a database cannot become one of several shards.
    check_shard: Callable[[Database], None] | None = None


class Site(NamedTuple):
    """Where a face works: one database, its clock and numbers, and the app's declarations."""

    database: Database
    clock: Clock
    numbers: Numbers
    registry: Registry
    faces: Faces
    max_payload: int
    # Whether a kind with one shard for all its rows, such as a sweep, has it here.
    is_home: Callable[[Kind], bool] = lambda _kind: True
    # Passes rows that an ending makes due to the worker that writes it.
    hand_off: HandOff | None = None

    @classmethod
    def at(cls, shard: Shard, registry: Registry) -> Site:
        """The site of an app with this registry, in one of its databases."""
        return cls(
            shard.database, shard.clock, shard.numbers, registry, shard.faces, shard.max_payload
        )

    def stamp(self, worker: int, lease: int) -> Stamp:
        """The stamp of rows that `worker` claims now."""
        now = self.clock.now()
        return Stamp(self.numbers.take()[0], worker, now, now + lease)


@dataclass(frozen=True)
class Workplace:
    """What a worker gives to the loops of faces."""

    site: Site
    kinds: Mapping[str, Kind]
    in_flight: InFlight
    ring: Ring
    gate: Gate
    # The worker's id. It changes when the worker joins again.
    worker: Callable[[], int]
    # Whether nothing may start because a quarantined row waits to run alone.
    is_quiet: Callable[[], bool]
    look_now: Callable[[], None]
    # Whether the worker stops when nothing is due, like a drain.
    until_idle: bool
    # Whether faces run only what an operator asked for.
    only_asked: bool


class FaceLoop(Loop):
    """A loop that a face runs in a worker."""

    # Whether it starts runs: a stopping worker waits for it before it drops queued rows.
    begins_runs = False

    def __init__(self) -> None:
        super().__init__()
        self.done = 0
        self.failed = 0
        self.is_idle = False
        # The error that stops it. A drain does not wait until it passes.
        self.trouble: Exception | None = None

    def look_again(self) -> None:
        """Look once more before it is idle."""
        self.wake()

    def look_soon(self) -> None:
        """Something may have changed: look in a moment."""

    def release(self) -> None:
        """Release what it holds, after its last tick and its last run."""

    def close(self) -> None:
        """End its threads."""


class Runnable(Protocol):
    """A worker, as faces use one."""

    async def run(self) -> None:
        """Join, work, and leave."""

    def stop(self) -> None:
        """Finish running tasks, then leave; the second call leaves at once."""


class Resolved(NamedTuple):
    """Rows that can run, and by id the errors of rows that must fail without a call."""

    tasks: Sequence[Claimed]
    refused: Mapping[int, Exception]


class Ended(NamedTuple):
    """A row with the outcome to write, and what a face kept with its run."""

    task: Claimed
    outcome: Outcome
    kept: Mapping[type, Any] | None = None


class Ending(Protocol):
    """What a face writes in the transaction of some outcomes."""

    @property
    def locks(self) -> Collection[int]:
        """Task rows to lock before the rows of the outcomes; `write` gets their open slots."""

    def write(self, connection: Connection, accepted: set[int], locked: Mapping[int, int]) -> None:
        """Write what follows from the accepted outcomes. May run again."""

    def committed(self, accepted: set[int]) -> bool:
        """The transaction has committed. Returns whether it made other rows due."""


class Tidying(NamedTuple):
    """One transaction of maintenance."""

    connection: Connection
    dialect: Dialect
    faces: Faces
    now: int
    # About how many rows one transaction may change.
    limit: int


class Chore(NamedTuple):
    """One transaction of maintenance. `work` returns how many rows it changed."""

    work: Callable[[Tidying], int]
    # Runs with every tick, and again soon after a full page. Other chores run rarely.
    is_often: bool = False
    # Whether it deletes the rows that it counts.
    is_prune: bool = True


Values = dict[str, Any]
Read = Callable[[Callable[["Connection"], Any]], Any]


@dataclass(frozen=True)
class Along:
    """What moves to another shard with task rows. No code reads a copy until the rows arrive."""

    # Pages of more task rows that move, such as the nodes of a flow run.
    nodes: Callable[[Read, Sequence[Values]], Iterator[list[Values]]] | None = None
    # The ids of those rows in the old shard.
    inside: Callable[[Connection, Collection[Values]], Iterator[Sequence[int]]] | None = None
    # Rows of other tables that belong to task rows; the mapping has the new ids.
    copy: Callable[[Read, Sequence[int], Mapping[int, int]], Iterator[Copied]] | None = None
    drop: Callable[[Connection, Sequence[int]], None] | None = None
    # Rows were written (+1) or deleted (-1); the last argument is the old shard's expendable kinds.
    counted: Callable[[Connection, Sequence[Values], int, Collection[str]], None] | None = None
    # Kinds that may lose a copy whose key exists in the new shard.
    expendable: Callable[[Connection], set[str]] | None = None


class Copied(NamedTuple):
    """Rows of one table."""

    table: Any
    rows: list[Values]


class Moved(NamedTuple):
    """How much of a face moved, and how much was too busy to move."""

    moved: int
    busy: int


class Faces:
    """The faces of an app. Each is loaded at its first use.

    `places` maps each face to its table: a face without kinds and without rows costs nothing.
    `since` has the migration of each table that is not in the oldest tables.
    """

    def __init__(
        self,
        places: Mapping[str, str],
        *,
        since: Mapping[str, str] | None = None,
        package: str = "windlass",
    ) -> None:
        self._places = places
        self._since = since or {}
        self._package = package

    @cached_property
    def all(self) -> tuple[Face, ...]:
        return tuple(self._load(name) for name in self._places)

    def only(self, names: Collection[str]) -> Faces:
        kept = {name: place for name, place in self._places.items() if name in names}
        if len(kept) == len(self._places):
            return self
        return Faces(kept, since=self._since, package=self._package)

    def in_use(self, database: Database, kinds: Iterable[Kind] = ()) -> Faces:
        """The faces that declared one of these kinds, or have rows in the database."""
        there = {
            name: place
            for name, place in self._places.items()
            if name not in self._since or database.has_tables(self._since[name])
        }
        found = database.filled(list(there.values()))
        named = {name for name, place in self._places.items() if place in found}
        return self.only(named | {kind.face for kind in kinds})

    def _load(self, name: str) -> Face:
        face: Face = import_module(f"{self._package}.{name}.face").FACE
        return face

    def serving(self, kinds: Mapping[str, Kind]) -> Faces:
        """The faces of these kinds."""
        return self.only({face for kind in kinds.values() for face in kind.faces})

    def resolve(self, database: Database, tasks: Sequence[Claimed]) -> Resolved:
        """Prepare fetched rows, such as nodes of flows, by the face that can."""
        for face in self.all:
            if face.resolve is not None:
                return face.resolve(database, tasks)
        return Resolved(tasks, {})

    def holding(self, registry: Registry) -> list[Kind]:
        """The kinds that own rows of other kinds, which a pause holds, too."""
        names = {face.name for face in self.all if face.hold is not None}
        return [kind for kind in registry.kinds.values() if kind.face in names]

    def hold(
        self, site: Site, tasks: Sequence[Claimed], paused: Collection[str]
    ) -> Sequence[Claimed]:
        """Put off rows that belong to one of the `paused` kinds; returns the others."""
        for face in self.all:
            if face.hold is not None:
                tasks = face.hold(site, tasks, paused)
        return tasks

    def let_go(self, site: Site, kinds: Collection[str]) -> int:
        """Make the rows due that were put off while `kinds` were paused; returns how many."""
        return sum(face.let_go(site, kinds) for face in self.all if face.let_go)

    def hand_back(self, connection: Connection, worker: int) -> int:
        return sum(face.hand_back(connection, worker) for face in self.all if face.hand_back)

    def abandon(self, connection: Connection, worker: int) -> int:
        return sum(face.abandon(connection, worker) for face in self.all if face.abandon)

    def stopped(self, connection: Connection, ids: Collection[int], *, now: int) -> None:
        for face in self.all:
            if face.stopped:
                face.stopped(connection, ids, now)

    def restarted(self, connection: Connection, ids: Collection[int]) -> None:
        for face in self.all:
            if face.restarted:
                face.restarted(connection, ids)

    def replaced(self, executor: Executor, kind: str, key: str) -> None:
        for face in self.all:
            if face.replaced:
                face.replaced(executor, kind, key)

    def pruned(self, connection: Connection, ids: Collection[int]) -> None:
        for face in self.all:
            if face.pruned and ids:
                face.pruned(connection, ids)

    @property
    def alongs(self) -> Iterator[Along]:
        return (face.along for face in self.all if face.along is not None)

    def endings(self, site: Site, ended: Sequence[Ended], *, worker: int) -> list[Ending]:
        if not ended:
            return []
        made = (face.ending(site, ended, worker) for face in self.all if face.ending)
        return [ending for ending in made if ending is not None]
