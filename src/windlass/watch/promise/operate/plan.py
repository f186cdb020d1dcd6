"""`windlass plan`: what a change would do, from what the databases say now. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from windlass.clock import Clock
from windlass.core.ring import store as ring_store
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind, Registry
from windlass.database.connection import Connection
from windlass.errors import BadInput
from windlass.sweep.declare import check_ranges
from windlass.sweep.model import is_sweep
from windlass.value.rate import parse_rate, rate_text
from windlass.watch.promise.engine import (
    Facts,
    PromiseReader,
    RollingFacts,
    judged,
    replanned,
)
from windlass.watch.promise.model.judge import BacklogFacts, RoundFacts
from windlass.watch.promise.model.pace import KindPace, together
from windlass.watch.promise.model.plan import (
    UNKNOWNS,
    ChangePlan,
    KindPlan,
    PlannedChange,
    RingPlan,
    basis_of,
    plan_ring,
    possible_rate,
    read_workers,
)

NONE = "none"


@dataclass(frozen=True)
class ShardFacts:
    """What one shard says: its ring, how it would be, and its kinds."""

    ring: RingPlan
    kinds: dict[str, Facts]

    @property
    def more(self) -> int:
        """How many workers would be added; below 0, how many would leave."""
        return self.ring.workers_after - self.ring.workers_before


def read_change(
    registry: Registry,
    *,
    workers: str | None = None,
    rates: Iterable[str] = (),
    concurrency: Iterable[str] = (),
    ranges: Iterable[str] = (),
) -> PlannedChange:
    """The change that options such as "offer=300/s" describe; an error names the wrong one."""
    if workers is not None:
        read_workers(workers)
    found: dict[str, float] = {}
    for name, text in _pairs(rates, "rate", "offer=300/s"):
        registry.get(name)
        found[name] = 0.0 if text == NONE else parse_rate(text, what=f"rate of {name!r}")
    at_once: dict[str, int] = {}
    for name, text in _pairs(concurrency, "concurrency", "offer=50"):
        registry.get(name)
        at_once[name] = _number(text, f"concurrency of {name!r}")
    cut: dict[str, int] = {}
    for name, text in _pairs(ranges, "ranges", "offer=60"):
        registry.of_face(name, "sweep", what="a sweep")
        cut[name] = check_ranges(name, _number(text, f"ranges of {name!r}"))
    return PlannedChange(workers, found, at_once, cut)


def plan(fleet: Fleet, clock: Clock, registry: Registry, change: PlannedChange) -> ChangePlan:
    """What the change would do to rings, rounds and promises."""
    kinds = [kind for _, kind in sorted(registry.kinds.items()) if _is_planned(kind, change)]
    answers = fleet.ask(lambda shard: _read(shard, registry, kinds, change))
    now = clock.now()
    return ChangePlan(
        change=_described(change),
        rings=[each.ring for each in answers.values],
        kinds=[each for kind in kinds for each in _kind_plan(kind, answers.values, change, now)],
        unknown=list(UNKNOWNS),
        missing=answers.missing,
    )


def _is_planned(kind: Kind, change: PlannedChange) -> bool:
    named = {*change.rates, *change.concurrency, *change.ranges}
    promises = kind.period is not None or kind.within is not None
    return promises or is_sweep(kind) or kind.name in named


def _read(
    shard: Shard, registry: Registry, kinds: Sequence[Kind], change: PlannedChange
) -> ShardFacts:
    dialect, now, name = shard.database.dialect, shard.clock.fresh(), shard.name

    def work(connection: Connection) -> ShardFacts:
        reader = PromiseReader(connection, dialect, registry.kinds, now)
        alive = [
            each.id
            for each in ring_store.workers(connection)
            if each.kinds and each.lease_until >= now
        ]
        ring = plan_ring(name, alive, change.workers_after(len(alive)))
        found = ((kind.name, _facts(reader, kind)) for kind in kinds)
        return ShardFacts(ring, {kind: facts for kind, facts in found if facts is not None})

    return shard.database.read(work)


def _facts(reader: PromiseReader, kind: Kind) -> Facts | None:
    is_known = kind.period is not None or kind.within is not None or is_sweep(kind)
    return reader.facts(kind) if is_known else BacklogFacts(reader.pace(kind))


def _kind_plan(
    kind: Kind, found: Sequence[ShardFacts], change: PlannedChange, now: int
) -> Iterable[KindPlan]:
    there = [each for each in found if kind.name in each.kinds]
    if not there:
        return
    before = [each.kinds[kind.name] for each in there]
    split = replace(
        change,
        rates={name: rate / len(found) for name, rate in change.rates.items()},
    )
    after = [
        replanned(facts, split.pace(kind.name, facts.pace, more=each.more))
        for facts, each in zip(before, there, strict=True)
    ]
    is_judged = kind.period is not None or kind.within is not None or is_sweep(kind)
    one, other = (_pace(facts) for facts in (before, after))
    was, becomes = (
        judged(kind, facts, now=now) if is_judged else None for facts in (before, after)
    )
    promises = kind.period is not None or kind.within is not None
    # A cron and a flow have one run at a time to be done, not a queue.
    is_paced = kind.schedule is None and kind.face != "flow"
    yield KindPlan(
        kind=kind.name,
        face="cron" if kind.schedule is not None else kind.face,
        workers_before=one.workers,
        workers_after=other.workers,
        rate_before=possible_rate(one) if is_paced else None,
        rate_after=possible_rate(other) if is_paced else None,
        needed_rate=None if becomes is None or not promises else becomes.needed_rate,
        ends_before=None if was is None else was.ends_at,
        ends_after=None if becomes is None else becomes.ends_at,
        promise=None if becomes is None or not promises else becomes.promise,
        state_before=None if was is None or not promises else was.state,
        state_after=None if becomes is None or not promises else becomes.state,
        forecast_before="" if was is None else was.forecast,
        forecast_after="" if becomes is None else becomes.forecast,
        cure=None if becomes is None or not promises else becomes.cure,
        basis=basis_of(one) if is_paced else "how long it takes does not follow from the workers",
    )


def _pace(found: Sequence[Facts]) -> KindPace:
    """The pace over all shards; a sweep counts where it runs."""
    rounds = [each for each in found if isinstance(each, RoundFacts)]
    if rounds:
        return max(rounds, key=lambda each: (each.is_running, each.started_at or 0)).pace
    paces = [each.pace for each in found]
    if isinstance(found[0], RollingFacts) and len(found) == 1:
        return found[0].pace
    return together(paces)


def _pairs(given: Iterable[str], option: str, example: str) -> Iterable[tuple[str, str]]:
    for text in given:
        name, equals, value = text.rpartition("=")
        if not equals or not name or not value:
            raise BadInput(f"{option}: cannot read {text!r}; write KIND=..., as in {example}")
        yield name, value


def _number(text: str, what: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:10]) <= 10**6:
        raise BadInput(f"{what}: {text!r} is not a number from 1 to 1,000,000")
    return int(text)


def _described(change: PlannedChange) -> list[str]:
    parts = [] if change.workers is None else [f"workers {change.workers}"]
    for name, rate in change.rates.items():
        parts.append(f"rate of {name} {rate_text(rate) if rate else NONE}")
    parts += [f"concurrency of {name} {number}" for name, number in change.concurrency.items()]
    return parts + [f"ranges of {name} {number}" for name, number in change.ranges.items()]
