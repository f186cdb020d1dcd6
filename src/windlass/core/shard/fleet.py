"""The shards of an app: which one a row belongs to, which answer, and pages of rows from all."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Generic, NamedTuple, Protocol, TypeVar

from windlass import telemetry
from windlass.clock import Clock, DatabaseClock
from windlass.core.face import Faces
from windlass.core.shard.roster import assemble, check_alone, propose, tell
from windlass.core.shard.shard import OUTAGES, Answers, Shard, fan_out
from windlass.core.shard.store import shard as store
from windlass.core.task.enqueue import Guard, Vanished
from windlass.core.task.store import task
from windlass.database import migrate
from windlass.database.access import Password
from windlass.database.bound import Bounds
from windlass.database.connection import Connection
from windlass.database.database import TRIES, URL, Database
from windlass.database.dialect.base import Executor
from windlass.errors import BadDatabase, BadInput, DatabaseUnavailable
from windlass.value.shard import COMING, CONTROL, MOST_SHARDS, Roster, place_of

T = TypeVar("T")
R = TypeVar("R", bound="Movable")

OPEN_SECONDS = 3.0
ROUTE_SECONDS = 10.0
ROUTE_PAUSE = 0.02

# A cursor has for each shard: not asked yet, no rows left, or the id below which to continue.
BEGIN = "begin"
ENDED = "end"
PLACE = re.compile(rf"{BEGIN}|{ENDED}|-?[0-9]{{1,18}}")


class Rerouted(Exception):
    """A shard has another roster than the caller."""

    def __init__(self, shard: Shard) -> None:
        super().__init__(shard.name)
        self.shard = shard


class Movable(Protocol):
    """A row, or the copy of a row that is still being moved here from another shard."""

    @property
    def is_coming(self) -> bool: ...


class Route(NamedTuple):
    """The home of a key, and the shards where it may still be; look there first."""

    home: Shard
    earlier: list[Shard]
    # The number of the roster.
    number: int

    @property
    def shards(self) -> list[Shard]:
        return [*self.earlier, self.home]


class Held(NamedTuple):
    """Keys that a shard has, and keys that are moving to it: only their copy is there."""

    there: set[str]
    coming: set[str]


class Fleet:
    """One shard or several. With one, nothing is routed."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards: list[Shard] = []
        self.single: Shard | None = None
        self._roster: Roster | None = None
        self._turn = count()
        self._is_ready = False
        self._lock = threading.RLock()
        self.exchange(shards)

    @property
    def faces(self) -> Faces:
        return self.shards[0].faces

    @property
    def roster(self) -> Roster:
        """What the shards know of each other; call `prepare` first."""
        assert self._roster is not None
        return self._roster

    def exchange(self, shards: Sequence[Shard]) -> list[Shard]:
        """Use these shards from now on; returns the shards that it used before.

        Nothing may run on them meanwhile. Tests give an app their own database this way.
        """
        with self._lock:
            before, self.shards = self.shards, list(shards)
            self.single = self.shards[0] if len(self.shards) == 1 else None
            self._roster = None
            self._is_ready = False
            for shard in self.shards:
                shard.on_back = self._assemble_quietly
            return before

    def migrate(self) -> str:
        """Create or upgrade the tables of all databases; their version after that."""
        versions = []
        for shard in self.shards:
            versions.append(migrate.migrate(shard.database))
            if self.single is None:
                shard.look()
        self._assemble()
        return min(versions)

    def prepare(self) -> None:
        """Make sure that the tables exist. In SQLite they are created on first use.

        If there are several databases, those that do not answer are checked later.
        """
        if not self._is_ready:
            with self._lock:
                self._prepare()

    def close(self) -> None:
        """Close all connections."""
        for shard in self.shards:
            shard.close()

    # Which shard

    def home(self, kind: str, key: str) -> Shard:
        """The shard where a row with this key belongs."""
        return self.single or self._at(self.roster.home(kind, key), kind, key)

    def route(self, kind: str, key: str) -> Route:
        """The shard where a row with this key belongs, and the shards where it may be."""
        if self.single is not None:
            return Route(self.single, [], 0)
        home = self.home(kind, key)
        if not home.is_known() and home.is_up:
            # A process that only reads would not learn otherwise that rows have moved.
            try:
                self.reconcile(home)
            except OUTAGES as problem:
                home.failed(problem)
        return self.route_by(self.roster, kind, key)

    def route_by(self, roster: Roster, kind: str, key: str) -> Route:
        """`route`, by a roster that may have been replaced since."""
        earlier = [self._at(ring, kind, key) for ring in roster.earlier(kind, key)]
        home = self._at(roster.home(kind, key), kind, key)
        return Route(home, earlier, roster.number)

    def guard(self, shard: Shard, number: int) -> Guard:
        """A check, in the transaction that writes a key, that the roster has this number."""
        dialect = shard.database.dialect

        def check(executor: Executor) -> None:
            if store.number_of(executor, dialect) != number:
                raise Rerouted(shard)

        return check

    def keyed(self, work: Callable[[], T]) -> T:
        """Do `work`, which routes by keys; do all of it again if the shards have changed."""
        deadline = time.monotonic() + ROUTE_SECONDS
        while True:
            try:
                return work()
            except Rerouted as problem:
                self.reconcile(problem.shard)
            except Vanished:
                # The row has moved.
                pass
            if time.monotonic() > deadline:
                raise DatabaseUnavailable("the shards keep changing; try again")
            time.sleep(random.uniform(0, ROUTE_PAUSE))

    def held(self, shard: Shard, kind: str, keys: Collection[str], *, number: int) -> Held:
        """The keys that a shard still has although roster `number` has them elsewhere."""

        def look(connection: Connection) -> Held:
            # In this order: rows written under an older roster are committed by now.
            if store.get(connection).number != number:
                raise Rerouted(shard)
            found = task.find_batches(connection, shard.database.dialect, kind, keys)
            coming = {key for key, batch in found.items() if batch == COMING}
            return Held(found.keys() - coming, coming)

        return shard.database.read(look)

    def reconcile(self, shard: Shard) -> None:
        """Take over the roster of a shard if it is newer; otherwise update the shard."""
        row = shard.look()
        if row.roster is not None and row.number > self.roster.number:
            self._roster = row.roster
        tell(shard, self.roster)

    def taking(self) -> Iterator[Shard]:
        """Shards that take rows without a key, a different one first each time.

        Shards that are down come last.
        """
        shards = [shard for shard in self.shards if shard.row is not None]
        first = next(self._turn) % max(1, len(shards))
        ordered = shards[first:] + shards[:first]
        for wanted in (True, False):
            for shard in ordered:
                if shard.is_up is not wanted:
                    continue
                try:
                    if not shard.is_known():
                        self.reconcile(shard)
                except OUTAGES as problem:
                    shard.failed(problem)
                    continue
                if not self.roster.is_draining(shard.ring):
                    yield shard

    def locate(
        self, what: str, number: int, read: Callable[[Connection], R | None]
    ) -> tuple[Shard, R] | None:
        """The shard that has a row, and the row; None if it does not exist.

        A copy that is still being moved counts only if the original is gone.
        """
        away: list[str] = []
        coming: tuple[Shard, R] | None = None
        # Twice: between two reads it may have moved from the second shard to the first.
        for _ in range(1 if self.single is not None else 2):
            away = [each.name for each in self.shards if each.row is None and self.single is None]
            for shard in self._seeking(number):
                try:
                    found = shard.database.read(read) if shard.is_up else None
                except OUTAGES as problem:
                    if self.single is not None:
                        raise
                    shard.failed(problem)
                    found = None
                if not shard.is_up:
                    away.append(shard.name)
                elif found is not None and not found.is_coming:
                    return shard, found
                elif found is not None:
                    coming = shard, found
        if coming is None and away:
            raise DatabaseUnavailable(
                f"{what} {number} is in none of the shards that answer; {', '.join(away)} does not",
                missing=tuple(away),
            )
        return coming

    def _seeking(self, number: int) -> list[Shard]:
        """The shards in which to look for a row, first the one that made it."""
        if self.single is not None:
            return [self.single]
        place = place_of(number)
        there = [shard for shard in self.shards if shard.row is not None]
        first = [shard for shard in there if shard.row and shard.row.place == place]
        return first + [shard for shard in there if shard not in first]

    def named(self, name: str) -> Shard:
        """The shard that an operator names."""
        found = [shard for shard in self.shards if shard.is_named(name)]
        if len(found) != 1:
            known = ", ".join(f"{shard.index} ({shard.name})" for shard in self.shards)
            problem = "is not a shard" if not found else "names several shards"
            raise BadInput(f"{name!r} {problem} of this app; give one of: {known}")
        return found[0]

    def fan_out(self, work: Callable[[Shard], T]) -> Answers[T]:
        """Ask all shards at once; those that are down are missing."""
        if self.single is not None:
            return Answers([(self.single, work(self.single))], ())
        return fan_out(self.shards, lambda shard: work(self.opened(shard)))

    def ask(self, work: Callable[[Shard], T]) -> Answers[T]:
        """Ask all shards at once; at least one must answer."""
        found = self.fan_out(work)
        if len(found.missing) == len(self.shards):
            raise _none_answers(found.missing)
        return found

    def everywhere(self, work: Callable[[Shard], T], *, what: str) -> list[T]:
        """Do `work`, which may be repeated, on all shards; raise if one does not answer."""
        done = self.fan_out(work)
        if done.missing:
            raise DatabaseUnavailable(
                f"{what}, but not on {', '.join(done.missing)}, which did not answer; "
                "do it again when it is back",
                missing=done.missing,
            )
        return done.values

    def change(self, change: Callable[[Roster], Roster]) -> Roster:
        """Change the roster, and tell all shards that answer."""
        with self._lock:
            self._roster = propose(self.shards, self.roster, change)
            there = [shard for shard in self.shards if shard.row is not None]
            fan_out(there, lambda shard: tell(shard, self.roster))
            return self.roster

    def opened(self, shard: Shard) -> Shard:
        """The shard, opened now if it was not open."""
        if shard.row is None:
            shard.open()
            self._assemble()
        return shard

    @property
    def share(self) -> float:
        """The part of a rate for each shard."""
        return 1.0 / len(self.shards)

    def at(self, ring: str) -> Shard:
        """The shard with that permanent name, if it answers."""
        for shard in self.shards:
            if shard.row is not None and shard.row.ring == ring:
                return shard
        away = tuple(shard.name for shard in self.shards if shard.row is None)
        if not away:
            raise BadDatabase(
                f"{self.roster.peers[ring].name} became a shard after this process started; add it "
                "to App(...) and restart"
            )
        raise DatabaseUnavailable(
            f"a shard has not answered since this process started: {', '.join(away)}",
            missing=away,
        )

    def _at(self, ring: str, kind: str, key: str) -> Shard:
        try:
            return self.at(ring)
        except DatabaseUnavailable as problem:
            raise DatabaseUnavailable(
                f"{what_belongs(kind, key)} belongs to a shard that does not answer: "
                f"{', '.join(problem.missing)}",
                missing=problem.missing,
            ) from problem

    def _prepare(self) -> None:
        if self._is_ready:
            return
        if self.single is None:
            fan_out(self.shards, Shard.open, seconds=OPEN_SECONDS)
        else:
            self.single.prepare(tries=TRIES)
        self._assemble()

    def _assemble(self) -> None:
        with self._lock:
            if self.single is not None:
                check_alone(self.single)
            else:
                if not any(shard.row for shard in self.shards):
                    raise _none_answers(tuple(shard.name for shard in self.shards))
                self._roster = assemble(self.shards)
            self._is_ready = True

    def _assemble_quietly(self) -> None:
        try:
            if self._is_ready and self.single is None:
                self._assemble()
        except Exception as problem:
            telemetry.log.error("a shard that came back cannot be used: %s", problem)


def _none_answers(names: tuple[str, ...]) -> DatabaseUnavailable:
    return DatabaseUnavailable(f"none of the shards answers: {', '.join(names)}", missing=names)


def what_belongs(kind: str, key: str) -> str:
    """A kind and a key, or a control run, as errors name it."""
    if kind == CONTROL:
        return f"control {key.partition(chr(0))[0]!r}"
    return f"kind {kind!r}: key {key!r}"


def make_fleet(
    databases: Sequence[str | URL],
    *,
    clock: Clock | None,
    faces: Faces,
    max_payload: int,
    idle_milliseconds: int,
    bounds: Bounds,
    password: Password | None = None,
    schema: str | None = None,
) -> Fleet:
    """The shards at these URLs. All use `clock` if it is given; otherwise each has its own."""
    if len(databases) > MOST_SHARDS:
        raise BadDatabase(f"{len(databases)} databases are too many; give at most {MOST_SHARDS}")
    shards: list[Shard] = []
    for index, url in enumerate(databases, start=1):
        database = Database(url, bounds=bounds, password=password, schema=schema)
        database.dialect.idle_milliseconds = idle_milliseconds
        if any(database.url == shard.database.url for shard in shards):
            raise BadDatabase(f"{database.name} is given twice; give each shard its own database")
        # With several shards, no call waits long for the time of one.
        tries = TRIES if len(databases) == 1 else 2
        own = clock or DatabaseClock(partial(database.measure, tries=tries), name=database.name)
        shards.append(Shard(index, database, own, faces=faces, max_payload=max_payload))
    return Fleet(shards)


class PagePart(Protocol):
    """The rows of one shard for a page, and the id below which to continue; None at the end."""

    @property
    def below(self) -> int | None: ...


P = TypeVar("P", bound=PagePart)


@dataclass(frozen=True)
class ShardPages(Generic[P]):
    """The rows of each shard for a page, without shards that are down or have no more rows."""

    found: list[tuple[Shard, P]]
    next: str | None
    missing: tuple[str, ...]

    @property
    def parts(self) -> list[P]:
        return [part for _, part in self.found]


def ask_page(
    fleet: Fleet, ask: Callable[[Shard, int | None, int], P], *, after: str | None, limit: int
) -> ShardPages[P]:
    """Ask each shard for its share of a page: up to `limit` rows below an id."""
    places = _places(fleet, after)
    share = max(1, limit // len(fleet.shards))

    def part_of(shard: Shard) -> P | None:
        place = places[shard.index]
        return None if place == ENDED else ask(shard, _below(place), share)

    answers = fleet.fan_out(part_of)
    found = [(shard, part) for shard, part in answers.found if part is not None]
    for shard, part in found:
        places[shard.index] = ENDED if part.below is None else str(part.below)
    is_over = all(places[shard.index] == ENDED for shard, _ in answers.found)
    cursor = None if is_over else ".".join(places[shard.index] for shard in fleet.shards)
    return ShardPages(found, cursor, answers.missing)


def _below(place: str) -> int | None:
    return None if place == BEGIN else int(place)


def _places(fleet: Fleet, cursor: str | None) -> dict[int, str]:
    if cursor is None:
        return {shard.index: BEGIN for shard in fleet.shards}
    parts = cursor.split(".")
    if len(parts) != len(fleet.shards) or not all(PLACE.fullmatch(part) for part in parts):
        raise BadInput(f"{cursor!r} is not the cursor of a page of these shards; begin again")
    return {shard.index: part for shard, part in zip(fleet.shards, parts, strict=True)}
