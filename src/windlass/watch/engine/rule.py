"""The rules: what the rows say about problems that no transaction notices by itself.

Some problems happen, such as a task that fails: they are counted. Others last, such as a kind
without a worker: they are looked for again and again, and are gone when they are not found.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from windlass.clock import SECOND
from windlass.core.alert import store as alert_store
from windlass.core.alert.model import Trouble, cause_of
from windlass.core.face import Site
from windlass.core.fetch import store as fetch_store
from windlass.core.finish import store as finish_store
from windlass.core.finish.store import MINUTE
from windlass.core.limit import store as limit_store
from windlass.core.limit.store import SwitchRows
from windlass.core.limit.switch import held_back
from windlass.core.ring import store as ring_store
from windlass.core.ring.store import WorkerView
from windlass.core.task.kind import Kind, Registry
from windlass.database.connection import Connection
from windlass.queue.model.consume import is_consumer
from windlass.sweep.model import is_sweep
from windlass.sweep.store import range as ranges
from windlass.sweep.store import run as sweep_run
from windlass.sweep.store import sweep
from windlass.value.duration import format_duration
from windlass.watch.declare import Watching
from windlass.watch.engine.promise import troubled_promises
from windlass.watch.engine.queue import troubled_queues
from windlass.watch.promise.engine import promises_here
from windlass.watch.promise.model.promise import Promise
from windlass.watch.store import watch as store
from windlass.watch.store.watch import MinuteTally

HOUR = 60 * MINUTE
DAY = 24 * HOUR
# A worker that starts, or takes over, needs a moment.
UNSERVED_AFTER = 30 * SECOND
DEATHS_AN_HOUR = 3.0
# The share of items that may fail, and how many must fail before the share counts.
FAILED_SHARE = 0.05
FEWEST_FAILED = 10
SHARE_MINUTES = 10
SILENT = "it missed its heartbeat"

# Problems that last. When they are not found any more, they are gone.
LASTING = frozenset(
    (
        *("run failed", "run late", "late", "no worker", "workers dying", "unknown kind"),
        *("failing", "source", "failures", "flow late", "promise at risk", "promise broken"),
        *("broker", "outbox late", "message failed"),
    )
)
# Problems that happen. They are gone when they did not happen again for this long.
GONE_AFTER = {
    "task failed": 10 * MINUTE,
    "cron failed": DAY,
    "flow failed": 10 * MINUTE,
    "poison": HOUR,
    "worker dead": HOUR,
    "clock stepped": HOUR,
}


class WatchState(msgspec.Struct):
    """What was counted already: failures by kind since `minute`, and deaths up to `dead_to`."""

    minute: int = 0
    counted: dict[str, int] = {}
    dead_to: int = 0


@dataclass
class Look:
    """One look at a database: what the rules read, read once."""

    site: Site
    connection: Connection
    watching: Watching
    state: WatchState
    now: int

    @cached_property
    def tallies(self) -> list[MinuteTally]:
        since = min(self.state.minute or self.minute, self.minute - SHARE_MINUTES)
        return store.tallies(self.connection, since=since)

    @cached_property
    def workers(self) -> list[WorkerView]:
        return ring_store.workers(self.connection, left_since=self.now - HOUR)

    @cached_property
    def switches(self) -> SwitchRows:
        return limit_store.switches(self.connection)

    @cached_property
    def promises(self) -> list[Promise]:
        dialect = self.site.database.dialect
        return promises_here(self.connection, dialect, self.kinds, now=self.now)

    @property
    def minute(self) -> int:
        return self.now // MINUTE

    @property
    def kinds(self) -> dict[str, Kind]:
        return self.site.registry.kinds

    def is_served(self, name: str) -> bool:
        """Whether a worker that is alive serves the kind."""
        present = (each for each in self.workers if each.left_at is None)
        return any(name in each.kinds and each.lease_until >= self.now for each in present)

    def is_free(self, kind: Kind) -> bool:
        """Whether nothing holds the kind back on purpose."""
        switch = self.switches.of(kind.name, kind.group)
        return held_back(kind, switch, now=self.now, others=self.switches) is None


def happened(look: Look) -> Iterator[Trouble]:
    """What happened since the last look; counts it as told."""
    state, is_first = look.state, look.state.minute == 0
    failed: Counter[str] = Counter()
    for tally in look.tallies:
        if tally.minute >= (state.minute or look.minute):
            failed[tally.kind] += tally.failed
    for name, count in failed.items():
        new = count - state.counted.get(name, 0)
        problem = None if is_first or new <= 0 else _failed(look, name, new)
        if problem is not None:
            yield problem
    yield from _deaths(look, is_first=is_first)
    # Outcomes of the last minute may still be written.
    state.minute = look.minute - 1
    recent: Counter[str] = Counter()
    for tally in look.tallies:
        if tally.minute >= state.minute:
            recent[tally.kind] += tally.failed
    state.counted = dict(recent)


def lasts(look: Look) -> Iterator[Trouble]:
    """What is wrong now."""
    yield from _nobody(look)
    yield from _held_up(look)
    yield from _unknown(look)
    yield from _runs(look)
    yield from _failing(look)
    yield from troubled_promises(look.promises, look.watching, now=look.now)
    yield from troubled_queues(
        look.connection,
        look.kinds.values(),
        is_open=alert_store.open_causes(look.connection),
        now=look.now,
    )
    for row in sweep.listing(look.connection):
        if row.error is not None:
            text = f"sweep {row.name!r} cannot read its source: {row.error}"
            yield Trouble("source", row.name, text)
        over = next(iter(sweep.rounds(look.connection, row.name, limit=1)), None)
        if over is not None and over.failed:
            text = f"the last round of sweep {row.name!r} ended with {over.failed} failed items"
            see = f"windlass sweep failures {row.name}"
            yield Trouble("failures", row.name, f"{text}; see: {see}", times=over.failed)
    yield from _sweep_runs(look)
    dead = [each for each in look.workers if each.left_why == SILENT]
    if len(dead) > look.watching.limit("workers dying", "", DEATHS_AN_HOUR):
        hosts = ", ".join(sorted({each.host for each in dead}))
        yield Trouble(
            "workers dying",
            "",
            f"{len(dead)} workers missed their heartbeat in the last hour, on {hosts}; "
            "see: windlass ring",
        )


def _sweep_runs(look: Look) -> Iterator[Trouble]:
    """Runs over given sources that cannot be read, or that ended with failed items."""
    for row in sweep_run.with_errors(look.connection):
        text = f"run {row.name!r} cannot read its source: {row.error}"
        yield Trouble("source", row.name, f"{text}; or end it: windlass sweep cancel {row.name}")
    for run in sweep_run.with_failures(look.connection):
        text = f"run {run.name!r} ended with {run.items} failed items"
        see = f"windlass sweep failures {run.name}"
        yield Trouble("failures", run.name, f"{text}; see: {see}", times=run.items)


def recovered(look: Look) -> Iterator[str]:
    """The kinds of crons and flows that have succeeded since they failed last."""
    last: dict[str, MinuteTally] = {}
    for tally in sorted(look.tallies):
        if tally.failed or tally.done:
            last[tally.kind] = tally
    for name, tally in last.items():
        kind = look.kinds.get(name)
        is_one_by_one = kind is not None and (kind.schedule is not None or kind.face == "flow")
        if is_one_by_one and tally.done and not tally.failed:
            yield name


def _failed(look: Look, name: str, count: int) -> Trouble | None:
    kind = look.kinds.get(name)
    if kind is None or kind.face in ("rolling", "sweep") or is_consumer(kind):
        # Single items may fail; a share of them may not. Failed messages are told by their rows.
        return None
    error = store.last_error(look.connection, name)
    cause = "" if error is None else f": {error.splitlines()[0][:300]}"
    if kind.face == "flow":
        text = f"{count} runs of flow {name!r} failed" if count > 1 else f"flow {name!r} failed"
        see = f"windlass flow list --flow {name} --status failed"
        return Trouble("flow failed", name, f"{text}{cause}; see: {see}", times=count)
    see = f"windlass task list --kind {name} --status failed"
    if kind.schedule is not None:
        text = f"cron {name!r} failed{cause}; see: {see}"
        return Trouble("cron failed", name, text, times=count)
    text = f"{count} tasks of {name!r} failed" if count > 1 else f"a task of {name!r} failed"
    return Trouble("task failed", name, f"{text} for good{cause}; see: {see}", times=count)


def _deaths(look: Look, *, is_first: bool) -> Iterator[Trouble]:
    state = look.state
    dead = [
        each
        for each in look.workers
        if each.left_why == SILENT and (each.left_at or 0) > state.dead_to
    ]
    state.dead_to = max([state.dead_to, *(each.left_at or 0 for each in dead)])
    if dead and not is_first:
        names = ", ".join(f"{each.id} on {each.host} (pid {each.pid})" for each in dead[:5])
        more = f" and {len(dead) - 5} more" if len(dead) > 5 else ""
        text = f"worker {names}{more} missed its heartbeat; its work was taken over"
        yield Trouble("worker dead", "", text, times=len(dead))


def _nobody(look: Look) -> Iterator[Trouble]:
    """The last worker died. One that was stopped is missed only when rows are due."""
    members = [each for each in look.workers if not look.kinds.keys().isdisjoint(each.kinds)]
    if any(each.left_at is None and each.lease_until >= look.now for each in members):
        return
    last = max(members, key=lambda each: each.left_at or each.lease_until, default=None)
    if last is not None and (last.left_at is None or last.left_why == SILENT):
        since = look.now - last.lease_until
        if since > UNSERVED_AFTER:
            died = f"worker {last.id} on {last.host} (pid {last.pid}) missed its heartbeat"
            yield Trouble("no worker", "", f"no worker is left: {died}; start one: windlass worker")
    elif last is None and cause_of("no worker", "") in alert_store.open_causes(look.connection):
        yield Trouble("no worker", "", "no worker is left; start one: windlass worker")


def _held_up(look: Look) -> Iterator[Trouble]:
    """Kinds with due rows that nobody runs, or that wait for long."""
    free = {name: kind for name, kind in look.kinds.items() if look.is_free(kind)}
    until = {name: kind.due_until(look.now) for name, kind in free.items() if kind.has_rows}
    dialect = look.site.database.dialect
    oldest = store.oldest_due(look.connection, dialect, until)
    # Each overload moves the due time of its row, but the row is as late as it is.
    tasks = [name for name in until if free[name].period is None and not free[name].schedule]
    overloaded = finish_store.overloaded_since(look.connection, tasks)
    for name, kind in free.items():
        if is_sweep(kind):
            yield from _unserved_sweep(look, name)
            continue
        if look.now - overloaded.get(name, look.now) > _late_after(look, kind):
            since = format_duration((look.now - overloaded[name]) // SECOND * SECOND)
            text = f"what {name!r} calls is overloaded: a row of it is put off since {since}"
            yield Trouble("late", name, f"{text}; see: windlass status")
            continue
        if name not in oldest:
            continue
        waits = look.now - oldest[name]
        since = format_duration(max(SECOND, waits // SECOND * SECOND))
        if not look.is_served(name):
            if waits > UNSERVED_AFTER:
                text = f"no worker serves {name!r}, and its oldest row is due since {since}"
                yield Trouble("no worker", name, f"{text}; start one: windlass worker")
        elif kind.period is None and waits > _late_after(look, kind):
            text = f"the oldest row of {name!r} is due since {since}"
            yield Trouble("late", name, f"{text}; see: windlass status")


def _late_after(look: Look, kind: Kind) -> int:
    """When the oldest due row of a kind is late; a kind with a promise is told by that."""
    if kind.late_after is None and kind.within is not None:
        return sys.maxsize
    return kind.late_after or look.watching.late_after or DAY


def _unserved_sweep(look: Look, name: str) -> Iterator[Trouble]:
    if look.is_served(name):
        return
    row = sweep.get(look.connection, name)
    is_open = any(each.is_open for each in ranges.listing(look.connection, name))
    is_open = is_open or bool(sweep_run.opened(look.connection, [name]))
    if row is None or not (is_open or (row.due_at is not None and row.due_at <= look.now)):
        return
    text = f"no worker serves sweep {name!r}, and its round waits; start one: windlass worker"
    yield Trouble("no worker", name, text)


def undeclared(
    unended: Collection[str], registry: Registry, workers: Iterable[WorkerView]
) -> list[str]:
    """The kinds in `unended` that neither this app nor a worker that is there declares."""
    served = {kind for each in workers if each.left_at is None for kind in each.declared}
    known = {*registry.kinds, *registry.own, *registry.templates, *served}
    return sorted(
        kind for kind in unended if kind not in known and not kind.startswith("windlass:")
    )


def _unknown(look: Look) -> Iterator[Trouble]:
    unended = fetch_store.kinds_unended(look.connection)
    for kind in undeclared(unended, look.site.registry, look.workers):
        text = f"rows of kind {kind!r} wait, but no app declares it"
        see = f"windlass task list --kind {kind}"
        yield Trouble("unknown kind", kind, f"{text}; see: {see}")


def _runs(look: Look) -> Iterator[Trouble]:
    for name, partition, error in store.failed_runs(look.connection, since=look.now - DAY):
        cause = "" if error is None else f": {error.splitlines()[0][:300]}"
        text = f"run {_run(name, partition)} failed{cause}; see: windlass control show {name}"
        yield Trouble("run failed", name[:100], text, subject=f"{name}/{partition}")
    for name, partition, expired in store.late_runs(look.connection, now=look.now):
        over = format_duration(max(SECOND, (look.now - expired) // SECOND * SECOND))
        text = f"run {_run(name, partition)} is past its time for {over} and has not ended"
        see = f"windlass control show {name}"
        yield Trouble("run late", name[:100], f"{text}; see: {see}", subject=f"{name}/{partition}")


def _failing(look: Look) -> Iterator[Trouble]:
    """Rolling kinds and sweeps of which too large a share fails."""
    since = look.minute - SHARE_MINUTES
    for name, kind in look.kinds.items():
        if kind.face not in ("rolling", "sweep"):
            continue
        recent = [each for each in look.tallies if each.kind == name and each.minute >= since]
        failed, ended = _sums(recent)
        share = look.watching.limit("failing", name, FAILED_SHARE)
        if failed >= FEWEST_FAILED and failed > share * ended:
            part = f"{failed / ended:.0%} of {ended:,} items of {name!r} failed"
            yield Trouble("failing", name, f"{part} in the last {SHARE_MINUTES} minutes")


def _sums(tallies: Sequence[MinuteTally]) -> tuple[int, int]:
    failed = sum(each.failed for each in tallies)
    return failed, failed + sum(each.done for each in tallies)


def _run(name: str, partition: str) -> str:
    return f"{name!r} of {partition!r}" if partition else repr(name)
