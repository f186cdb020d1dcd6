"""What this process did, as samples; and what several processes did together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from windlass import telemetry
from windlass.core import meter as metering
from windlass.core.meter import KindMeter, Meter, WorkerState
from windlass.core.task.kind import Registry
from windlass.ledger.engine import tally
from windlass.ledger.model.ledger import LAPSE, Movement
from windlass.queue.model.queue import queues_made
from windlass.value.metric import Distribution, MetricValue
from windlass.watch.engine.deliver import DELIVER
from windlass.watch.metric.table import METRICS, OTHER, KindNames

# All of them from the beginning: the increase of a series that is new is not known.
EVENTS = tuple(name for name in telemetry.WORDS if name not in telemetry.LOG_ONLY)
WAYS = ("read", "written", "rescued", "handed_off")
SEVERAL = {"max": max, "min": min}


def measure(registry: Registry) -> Meter:
    """The meter of an app in this process, made now if there is none.

    Workers that were made before count nothing.
    """
    if registry.meter is None:
        registry.meter = Meter()
    return registry.meter


def names_of(registry: Registry) -> KindNames:
    """Which kinds of an app have a name of their own in metrics."""
    return KindNames([DELIVER, LAPSE, *registry.own, *registry.kinds])


def samples(registry: Registry) -> list[MetricValue]:
    """What this process did for an app until now."""
    meter, names = measure(registry), names_of(registry)
    with meter.lock:
        workers = list(meter.workers)
        enqueued = _labelled(names, meter.enqueued, known=registry.kinds)
        before = Counter(meter.started_before)
        queues = [each.name for each in queues_made()]
        published = _labelled(KindNames([*meter.published, *queues]), meter.published, known=queues)
        downstreams = list(registry.downstreams)
        overloaded = _labelled(KindNames(downstreams), meter.overloaded, known=downstreams)
    movements = {each.value: tally.movements[each.value] for each in Movement}
    made = [
        MetricValue("windlass_info", (_version(),), 1.0),
        *_each("windlass_task_enqueued_total", enqueued),
        *_each("windlass_event_total", {name: metering.events[name] for name in EVENTS}),
        *_each("windlass_message_sent_total", published),
        *_each("windlass_downstream_overloaded_total", overloaded),
        *_each("windlass_ledger_movement_total", movements),
    ]
    made += _consumers(registry, meter, names)
    if workers or before:
        states = [worker.state() for worker in workers]
        served = {name for state in states for name in state.started}
        with meter.lock:
            made += _calls(meter)
            made += _runs({**dict.fromkeys(served, KindMeter()), **meter.kinds}, names)
        # A process may have several workers of one shard.
        made += together([_workers(states, before, names)])
    return made


def together(processes: Iterable[Iterable[MetricValue]]) -> list[MetricValue]:
    """One sample for each place of all processes."""
    found: dict[tuple[str, tuple[str, ...]], MetricValue] = {}
    for part in processes:
        for sample in part:
            known = found.get(sample.place)
            found[sample.place] = sample if known is None else _joined(known, sample)
    return list(found.values())


def lasting(made: Iterable[MetricValue]) -> list[MetricValue]:
    """The samples that still count when their process has ended: all that are not gauges."""
    return [sample for sample in made if METRICS[sample.name].type != "gauge"]


@cache
def _version() -> str:
    try:
        return version("windlass")
    except PackageNotFoundError:
        return "unknown"


def _joined(one: MetricValue, other: MetricValue) -> MetricValue:
    how = METRICS[one.name].together
    if how == "sum":
        return one.plus(other)
    return SEVERAL[how](one, other, key=lambda sample: sample.value)


def _runs(kinds: Mapping[str, KindMeter], names: KindNames) -> Iterator[MetricValue]:
    by_label: dict[str, list[KindMeter]] = {}
    for name, found in kinds.items():
        by_label.setdefault(names.of(name), []).append(found)
    for label, same in by_label.items():
        for what in ("done", "failed", "retried"):
            total = sum(getattr(each, what) for each in same)
            yield MetricValue(f"windlass_task_{what}_total", (label,), total)
        for what in ("duration", "wait"):
            name = f"windlass_task_{what}_seconds"
            yield from together([_histogram(name, (label,), getattr(each, what))] for each in same)


def _calls(meter: Meter) -> Iterator[MetricValue]:
    """How the database was asked and written."""
    yield _histogram("windlass_claim_seconds", (), meter.claims)
    yield _histogram("windlass_commit_seconds", (), meter.commits)
    yield MetricValue("windlass_commit_rows_total", (), meter.committed_rows)
    yield from _each("windlass_claim_rows_total", {way: meter.claimed_rows[way] for way in WAYS})


def _consumers(registry: Registry, meter: Meter, names: KindNames) -> Iterator[MetricValue]:
    """What the consumers of this process did."""
    with meter.lock:
        if not meter.consumers:
            return
        runs, pulses = Counter(meter.consumed_runs), [each.pulse() for each in meter.consumers]
    carried = [name for name, kind in registry.kinds.items() if kind.via is not None]
    for how in ("done", "failed"):
        counts = {kind: count for (kind, ended), count in runs.items() if ended == how}
        yield from _each(f"windlass_consumer_{how}_total", _labelled(names, counts, known=carried))
    yield MetricValue("windlass_consumer_running", (), sum(pulse.running for pulse in pulses))


def _workers(
    states: list[WorkerState], before: Mapping[str, int], names: KindNames
) -> Iterator[MetricValue]:
    """What the workers of this process have now: one for each shard, or several beside another."""
    started = Counter(before)
    running: Counter[str] = Counter()
    ready: Counter[str] = Counter()
    for state in states:
        started.update(state.started)
        running.update(state.running)
        ready.update(state.ready)
    yield from _each("windlass_task_started_total", _labelled(names, started))
    yield from _each("windlass_task_running", _labelled(names, running))
    yield from _each("windlass_task_ready", _labelled(names, ready))
    for state in states:
        waiting = _labelled(names, state.waiting_elsewhere)
        yield from _each("windlass_carrier_waiting", waiting)
    yield MetricValue("windlass_task_in_flight", (), sum(state.in_flight for state in states))
    # The workers of several shards share one budget.
    most = max((state.concurrency for state in states), default=0)
    yield MetricValue("windlass_worker_concurrency", (), most)
    abandoned = sum(state.abandoned_threads for state in states)
    yield MetricValue("windlass_worker_abandoned_threads", (), abandoned)
    for state in states:
        if state.heartbeat_age is not None:
            shard = (state.shard,)
            yield MetricValue("windlass_worker_heartbeat_age_seconds", shard, state.heartbeat_age)
            yield MetricValue("windlass_worker_buckets", shard, state.buckets)
            yield MetricValue("windlass_worker_guarded", shard, int(state.is_guarded))


def _labelled(
    names: KindNames, counts: Mapping[str, int], *, known: Iterable[str] = ()
) -> dict[str, int]:
    """Counts by label. A `known` kind begins at 0, so that its first count is an increase."""
    found = dict.fromkeys((name for name in known if names.of(name) != OTHER), 0)
    for kind, count in counts.items():
        label = names.of(kind)
        found[label] = found.get(label, 0) + count
    return found


def _each(name: str, values: Mapping[str, int]) -> list[MetricValue]:
    return [MetricValue(name, (label,), value) for label, value in values.items()]


def _histogram(name: str, labels: tuple[str, ...], found: Distribution) -> MetricValue:
    return MetricValue(name, labels, found.total, list(found.counts))
