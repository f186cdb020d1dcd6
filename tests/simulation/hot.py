"""The protocol of the hot lane as a model: every order of its steps and failures, up to a bound.

One product. The book is a database and never forgets; the cache is one server, or two after a
split. Callers, an operator and recoveries take their steps in any order, and each may die between
two of them. A guard can be left out, to see that it is needed: `Guards`.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto

LENGTH = 40


class Broken(Exception):
    """What must not happen has happened."""


@dataclass(frozen=True)
class Guards:
    """What the protocol relies on; each can be left out."""

    # A record is only written in the epoch in which the cache decided it.
    record_is_fenced: bool = True
    # The cache refuses what comes from another epoch than its own.
    cache_is_fenced: bool = True
    # A caller talks to no other server than the one that the last recovery has filled.
    server_is_known: bool = True
    # A recovery begins its epoch and reads the book in one transaction.
    recovery_reads_at_once: bool = True
    # A recovery that is late does not write over a newer one: only then the lane stays open.
    refill_is_newer: bool = True
    # An answer is given after the record is durable.
    answer_is_durable: bool = True
    # The cache adds an allotment once, however often it is sent.
    allotment_is_once: bool = True
    # Stock is taken out of the cache before the book takes it back.
    recall_takes_first: bool = True
    # The book has each id once.
    id_is_unique: bool = True


class At(Enum):
    """How far an actor has come."""

    IDLE = auto()
    OPEN = auto()
    DECIDED = auto()
    READ = auto()
    FILLED = auto()
    SENT = auto()
    DONE = auto()


@dataclass(frozen=True)
class Cache:
    """A server: what it holds is gone, or old, when it starts again under another number."""

    boot: int
    epoch: int = 0
    left: int = 0
    ids: frozenset[str] = frozenset()
    added: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Actor:
    """A caller with its id, an operator, or a recovery: what it knows by now."""

    id: str
    at: At = At.IDLE
    epoch: int = 0
    boot: int = 0
    left: int = 0
    ids: frozenset[str] = frozenset()


@dataclass(frozen=True)
class World:
    """The book, the servers, and those who act."""

    allotted: int
    callers: tuple[Actor, ...]
    recoveries: tuple[Actor, ...]
    allot: Actor
    recall: Actor
    epoch: int = 0
    # The server that the last recovery filled; None while the lane is closed.
    filled: int | None = None
    records: tuple[str, ...] = ()
    sold: tuple[str, ...] = ()
    answered: frozenset[str] = frozenset()
    caches: tuple[Cache, ...] = (Cache(1),)
    saved: Cache | None = None
    failures: int = 0

    @property
    def master(self) -> Cache:
        """The server that new connections lead to."""
        return self.caches[-1]

    @property
    def free(self) -> int:
        return self.allotted - len(self.sold) - len(self.records)


def begin(callers: tuple[str, ...] = ("a", "a", "b"), *, allotted: int = 1) -> World:
    return World(
        allotted,
        tuple(Actor(id_) for id_ in callers),
        (Actor("r1"), Actor("r2")),
        Actor("allot"),
        Actor("recall"),
    )


def check(world: World) -> None:
    """What must be true in each state."""
    if world.free < 0:
        raise Broken("oversold")
    kept = (*world.records, *world.sold)
    if len(set(kept)) < len(kept):
        raise Broken("one id counts twice")
    if not world.answered <= set(kept):
        raise Broken("an accepted deduction is lost")


def steps(world: World, guards: Guards, *, failures: int) -> Iterator[tuple[str, World]]:
    """Every state that may come next."""
    for number, caller in enumerate(world.callers):
        for name, after, became in _calls(world, caller, guards):
            callers = (*world.callers[:number], became, *world.callers[number + 1 :])
            yield f"{caller.id}{number} {name}", replace(after, callers=callers)
    for number, recovery in enumerate(world.recoveries):
        for name, after, became in _recover(world, recovery, guards):
            both = (*world.recoveries[:number], became, *world.recoveries[number + 1 :])
            yield f"{recovery.id} {name}", replace(after, recoveries=both)
    for name, after, became in _allot(world, world.allot, guards):
        yield f"allot {name}", replace(after, allot=became)
    for name, after, became in _recall(world, world.recall, guards):
        yield f"recall {name}", replace(after, recall=became)
    if world.records:
        first, *rest = world.records
        yield "sync", replace(world, records=tuple(rest), sold=(*world.sold, first))
    if world.saved is None and world.master.epoch:
        yield "snapshot", replace(world, saved=world.master)
    if world.failures < failures:
        yield from _fail(world)


def _fail(world: World) -> Iterator[tuple[str, World]]:
    boot, failed = world.caches[-1].boot + 1, replace(world, failures=world.failures + 1)
    yield "restart empty", replace(failed, caches=(Cache(boot),))
    if world.saved is not None:
        old = replace(world.saved, boot=boot)
        yield "restart old", replace(failed, caches=(old,))
        yield "split", replace(failed, caches=(world.master, old))


def _server(world: World, boot: int) -> Cache | None:
    return next((cache for cache in world.caches if cache.boot == boot), None)


def _changed(world: World, cache: Cache) -> World:
    caches = tuple(cache if each.boot == cache.boot else each for each in world.caches)
    return replace(world, caches=caches)


def _calls(world: World, me: Actor, guards: Guards) -> Iterator[tuple[str, World, Actor]]:
    dead = Actor(me.id)
    if me.at not in (At.IDLE, At.DONE):
        yield "dies", world, dead
    if me.at is At.IDLE and world.filled is not None:
        boot = world.master.boot
        if world.filled == boot or not guards.server_is_known:
            yield "connects", world, replace(dead, at=At.OPEN, epoch=world.epoch, boot=boot)
    if me.at is At.OPEN:
        cache = _server(world, me.boot)
        is_ours = cache is not None and (cache.epoch == me.epoch or not guards.cache_is_fenced)
        if cache is None or not is_ours:
            yield "is told closed", world, dead
        elif me.id in cache.ids or cache.left > 0:
            taken = cache
            if me.id not in cache.ids:
                taken = replace(cache, left=cache.left - 1, ids=cache.ids | {me.id})
            after, decided = _changed(world, taken), replace(me, at=At.DECIDED)
            if not guards.answer_is_durable:
                after = replace(after, answered=world.answered | {me.id})
            yield "decides", after, decided
    if me.at is At.DECIDED:
        kept = (*world.records, *world.sold)
        if me.id in kept and guards.id_is_unique:
            answered = world.answered | {me.id}
            yield "finds its record", replace(world, answered=answered), replace(me, at=At.DONE)
        elif world.epoch == me.epoch or not guards.record_is_fenced:
            records, answered = (*world.records, me.id), world.answered | {me.id}
            after = replace(world, records=records, answered=answered)
            yield "records", after, replace(me, at=At.DONE)
        else:
            yield "is fenced", world, dead


def _recover(world: World, me: Actor, guards: Guards) -> Iterator[tuple[str, World, Actor]]:
    if me.at is At.IDLE:
        epoch = world.epoch + 1
        after = replace(world, epoch=epoch, filled=None)
        if guards.recovery_reads_at_once:
            yield "begins", after, _read(after, replace(me, at=At.READ, epoch=epoch))
        else:
            yield "begins", after, replace(me, at=At.OPEN, epoch=epoch)
    if me.at is At.OPEN:
        yield "reads", world, _read(world, replace(me, at=At.READ))
    if me.at is At.READ:
        cache = world.master
        if cache.epoch < me.epoch or not guards.refill_is_newer:
            full = Cache(cache.boot, me.epoch, me.left, me.ids)
            after = _changed(world, full)
            yield "fills", after, replace(me, at=At.FILLED, boot=cache.boot)
        yield "dies", world, replace(me, at=At.DONE)
    if me.at is At.FILLED:
        if world.epoch == me.epoch:
            yield "opens", replace(world, filled=me.boot), replace(me, at=At.DONE)
        yield "dies", world, replace(me, at=At.DONE)


def _read(world: World, me: Actor) -> Actor:
    return replace(me, left=world.free, ids=frozenset(world.records))


def _allot(world: World, me: Actor, guards: Guards) -> Iterator[tuple[str, World, Actor]]:
    if me.at is At.IDLE:
        after = replace(world, allotted=world.allotted + 1)
        yield "is booked", after, replace(me, at=At.OPEN, epoch=world.epoch)
    if me.at in (At.OPEN, At.SENT):
        cache = world.master
        is_new = 1 not in cache.added or not guards.allotment_is_once
        if (cache.epoch == me.epoch or not guards.cache_is_fenced) and is_new:
            more = replace(cache, left=cache.left + 1, added=cache.added | {1})
            # The answer may be lost; then it is sent again.
            again = replace(me, at=At.SENT if me.at is At.OPEN else At.DONE)
            yield "is sent", _changed(world, more), again
        yield "dies", world, replace(me, at=At.DONE)


def _recall(world: World, me: Actor, guards: Guards) -> Iterator[tuple[str, World, Actor]]:
    cache = world.master
    if me.at is At.IDLE and world.filled == cache.boot and cache.epoch == world.epoch:
        if not guards.recall_takes_first:
            if world.free > 0:
                after = replace(world, allotted=world.allotted - 1)
                yield "is booked", after, replace(me, at=At.DONE)
        elif cache.left > 0:
            after = _changed(world, replace(cache, left=cache.left - 1))
            yield "takes", after, replace(me, at=At.DECIDED, epoch=world.epoch)
    if me.at is At.DECIDED:
        if world.epoch == me.epoch:
            after = replace(world, allotted=world.allotted - 1)
            yield "is booked", after, replace(me, at=At.DONE)
        yield "dies", world, replace(me, at=At.DONE)


@dataclass(frozen=True)
class Explored:
    """How many states there are, and the way to the first that is broken."""

    states: int
    problem: str = ""
    way: tuple[str, ...] = ()


def explore(world: World, guards: Guards, *, failures: int, most: int = 10**9) -> Explored:
    """Every state that can be reached, or the shortest way to one that is broken."""
    before: dict[World, tuple[World, str] | None] = {world: None}
    waiting = deque([world])
    while waiting and len(before) < most:
        at = waiting.popleft()
        try:
            check(at)
        except Broken as problem:
            return Explored(len(before), str(problem), _way(before, at))
        for name, after in steps(at, guards, failures=failures):
            if after not in before:
                before[after] = at, name
                waiting.append(after)
    return Explored(len(before))


def _way(before: dict[World, tuple[World, str] | None], at: World) -> tuple[str, ...]:
    names: list[str] = []
    while (found := before[at]) is not None:
        at, name = found
        names.append(name)
    return tuple(reversed(names))


def walk(world: World, guards: Guards, *, seed: int, failures: int) -> tuple[str, ...]:
    """Some way of steps that the seed chooses; raises Broken where something is broken."""
    rng, names = random.Random(seed), []
    for _ in range(LENGTH):
        check(world)
        after = list(steps(world, guards, failures=failures))
        if not after:
            break
        name, world = rng.choice(after)
        names.append(name)
    return tuple(names)
