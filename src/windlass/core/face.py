"""What a face gives the kernel, which knows no face by name.

A face is a package such as `sweep`. Its module `face` has one value, FACE; the app has the list of
all faces. A part that a face does not need is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from windlass.core.loop import Loop

if TYPE_CHECKING:
    from windlass.clock import Clock
    from windlass.core.fetch.handoff import HandOff
    from windlass.core.limit.breaker import Breakers
    from windlass.core.limit.gate import Gate
    from windlass.core.ring.ring import Ring
    from windlass.core.run.in_flight import InFlight
    from windlass.core.shard.fleet import Fleet
    from windlass.core.shard.shard import Shard
    from windlass.core.task.kind import Kind, Registry
    from windlass.database.connection import Connection, Executor
    from windlass.database.database import Database
    from windlass.database.number import Numbers
    from windlass.value.outcome import Outcome
    from windlass.value.task import Claimed


@dataclass(frozen=True)
class Face:
    """One face, as the kernel uses it."""

    name: str
    # Called by a worker before it joins: makes the rows agree with what is declared.
    discover: Callable[[Site], None] | None = None
    # The loops that a worker runs beside its tasks.
    loops: Callable[[Workplace], Sequence[FaceLoop]] | None = None
    # Prepares rows that belong to a flow and were just taken.
    resolve: Callable[[Database, Sequence[Claimed]], Resolved] | None = None
    # What it writes with the outcomes of rows that concern it; None if these do not.
    ending: Callable[[Site, Sequence[Ended], int], Ending | None] | None = None
    # A worker leaves, or was marked dead: what it held beside task rows. Returns how much that was.
    hand_back: Callable[[Connection, int], int] | None = None
    abandon: Callable[[Connection, int], int] | None = None
    # An operator ended tasks, or let them run again; or a new task took the key of another.
    stopped: Callable[[Connection, Collection[int], int], None] | None = None
    restarted: Callable[[Connection, Collection[int]], None] | None = None
    replaced: Callable[[Executor, str, str], None] | None = None
    # What maintenance deletes or adds up.
    maintenance: Sequence[Chore] = ()
    # Task rows were deleted, as their time is over.
    pruned: Callable[[Connection, Collection[int]], None] | None = None
    # What moves to another shard together with task rows, and what moves by itself.
    along: Along | None = None
    move: Callable[[Fleet, Shard], Moved] | None = None
    # The names of what stays in a shard that is drained.
    stays: Callable[[Connection], list[str]] | None = None
    # The one shard that a kind of this face lives in.
    home: Callable[[Fleet, Kind], Shard] | None = None
    # Raises if a database cannot become one of several shards.
    check_shard: Callable[[Database], None] | None = None


class Site(NamedTuple):
    """Where a face works: one database, its clock and numbers, and what the app declares."""

    database: Database
    clock: Clock
    numbers: Numbers
    registry: Registry
    faces: Faces
    max_payload: int
    # Whether what has one place for all shards, such as a sweep, has it here.
    is_home: Callable[[Kind], bool] = lambda _kind: True
    # Takes rows that an ending makes due straight to the worker, if one writes it.
    hand_off: HandOff | None = None


@dataclass(frozen=True)
class Workplace:
    """What a worker lends to the loops of faces."""

    site: Site
    kinds: Mapping[str, Kind]
    in_flight: InFlight
    ring: Ring
    gate: Gate
    breakers: Breakers
    # The worker's id, which changes when it has to join again.
    worker: Callable[[], int]
    # Whether a quarantined row waits to run alone, so that nothing else should begin.
    is_quiet: Callable[[], bool]
    look_now: Callable[[], None]
    # Whether it stops when nothing is due, as a drain does.
    until_idle: bool
    # Names of faces that only run what an operator asked for.
    only_asked: bool


class FaceLoop(Loop):
    """A loop that a face runs in a worker."""

    # Whether it begins runs: a worker that stops waits for it before it drops what is queued.
    begins_runs = False

    def __init__(self) -> None:
        super().__init__()
        self.done = 0
        self.failed = 0
        self.is_idle = False
        # What keeps it from going on, for a drain, which does not wait for better times.
        self.trouble: Exception | None = None

    def look_again(self) -> None:
        """Be idle only after another look."""
        self.wake()

    def look_soon(self) -> None:
        """Something may have changed: look in a moment."""

    def release(self) -> None:
        """Give back what it holds; it does not tick any more, and no run of it is left."""

    def close(self) -> None:
        """End its threads."""


class Runnable(Protocol):
    """A worker, as faces use one."""

    async def run(self) -> None:
        """Join, work, and leave."""
        ...

    def stop(self) -> None:
        """Finish what runs, then leave; asked twice, leave at once."""
        ...


class Resolved(NamedTuple):
    """Rows that can run, and errors that others of them end with instead of being called."""

    tasks: Sequence[Claimed]
    refused: Mapping[int, Exception]


class Ended(NamedTuple):
    """A row whose outcome is about to be written, and what a face kept with its run."""

    task: Claimed
    outcome: Outcome
    kept: Mapping[type, Any] | None = None


class Ending(Protocol):
    """What a face writes with some outcomes, in their transaction."""

    @property
    def locks(self) -> Collection[int]:
        """Task rows to lock before those of the outcomes; `write` gets their open slots."""
        ...

    def write(self, connection: Connection, accepted: set[int], locked: Mapping[int, int]) -> None:
        """Write what follows from the outcomes that were accepted. May run again."""
        ...

    def committed(self, accepted: set[int]) -> bool:
        """The transaction has committed. Returns whether it has made other rows due."""
        ...


class Tidying(NamedTuple):
    """One transaction of maintenance."""

    connection: Connection
    faces: Faces
    now: int
    # At most about so many rows are to be changed in one transaction.
    limit: int


class Chore(NamedTuple):
    """Something that maintenance does in one transaction: returns how many rows it changed."""

    work: Callable[[Tidying], int]
    # With every tick, and again soon if it found a full page; otherwise now and then.
    is_often: bool = False
    # Whether the rows that it changes are deleted rows.
    is_prune: bool = True


Values = dict[str, Any]
Read = Callable[[Callable[["Connection"], Any]], Any]


@dataclass(frozen=True)
class Along:
    """What moves to another shard together with task rows. Nobody looks at a copy until they arrive."""

    # Pages of further task rows that move along, such as the nodes of a flow run.
    nodes: Callable[[Read, Sequence[Values]], Iterator[list[Values]]] | None = None
    # The ids of those rows, where they are.
    inside: Callable[[Connection, Collection[Values]], Iterator[Sequence[int]]] | None = None
    # Rows of other tables that belong to task rows; the mapping has the new ids.
    copy: Callable[[Read, Sequence[int], Mapping[int, int]], Iterator[Copied]] | None = None
    drop: Callable[[Connection, Sequence[int]], None] | None = None
    # Rows were written (+1) or deleted (-1), of the expendable kinds where they come from.
    counted: Callable[[Connection, Sequence[Values], int, Collection[str]], None] | None = None
    # The kinds of which nothing is lost when a copy cannot be written, as the key is there.
    expendable: Callable[[Connection], set[str]] | None = None


class Copied(NamedTuple):
    """Rows of one table."""

    table: Any
    rows: list[Values]


class Moved(NamedTuple):
    """How much of a face was moved, and how much could not be now."""

    moved: int
    busy: int


class Faces:
    """The faces of an app, each loaded when it is first needed.

    `places` says for each where its rows are: a face without kinds and without rows has nothing to
    do, and costs nothing.
    """

    def __init__(self, places: Mapping[str, str], *, package: str = "windlass") -> None:
        self._places = places
        self._package = package

    @cached_property
    def all(self) -> tuple[Face, ...]:
        return tuple(self._load(name) for name in self._places)

    def only(self, names: Collection[str]) -> Faces:
        """Some of the faces."""
        kept = {name: place for name, place in self._places.items() if name in names}
        return self if len(kept) == len(self._places) else Faces(kept, package=self._package)

    def in_use(self, database: Database, kinds: Iterable[Kind] = ()) -> Faces:
        """The faces that declared some of these kinds, or have rows in a database."""
        found = database.filled(list(self._places.values()))
        named = {name for name, place in self._places.items() if place in found}
        return self.only(named | {kind.face for kind in kinds})

    def _load(self, name: str) -> Face:
        face: Face = import_module(f"{self._package}.{name}.face").FACE
        return face

    def hand_back(self, connection: Connection, worker: int) -> int:
        """Give back what a worker that leaves holds beside task rows; how much that was."""
        return sum(face.hand_back(connection, worker) for face in self.all if face.hand_back)

    def abandon(self, connection: Connection, worker: int) -> int:
        """Let others take what a dead worker held beside task rows; how much that was."""
        return sum(face.abandon(connection, worker) for face in self.all if face.abandon)

    def stopped(self, connection: Connection, ids: Collection[int], *, now: int) -> None:
        """Tasks were ended by somebody else than their handler."""
        for face in self.all:
            if face.stopped:
                face.stopped(connection, ids, now)

    def restarted(self, connection: Connection, ids: Collection[int]) -> None:
        """Tasks that had ended run again."""
        for face in self.all:
            if face.restarted:
                face.restarted(connection, ids)

    def replaced(self, executor: Executor, kind: str, key: str) -> None:
        """A new task took the place of one with the same key."""
        for face in self.all:
            if face.replaced:
                face.replaced(executor, kind, key)

    def pruned(self, connection: Connection, ids: Collection[int]) -> None:
        """Task rows were deleted."""
        for face in self.all:
            if face.pruned and ids:
                face.pruned(connection, ids)

    @property
    def alongs(self) -> Iterator[Along]:
        """What moves along with task rows."""
        return (face.along for face in self.all if face.along is not None)

    def endings(self, site: Site, ended: Sequence[Ended], *, worker: int) -> list[Ending]:
        """What the faces write with these outcomes."""
        if not ended:
            return []
        made = (face.ending(site, ended, worker) for face in self.all if face.ending)
        return [ending for ending in made if ending is not None]
