"""What happens in Windlass, as events: one stream that logs, metrics and the live line read.

Code emits an event by name with its facts as fields. How an event reads to a person, and how loud
it is, is decided here and nowhere else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger("windlass")

Listener = Callable[["Event"], None]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened."""

    name: str
    fields: dict[str, object]

    @property
    def message(self) -> str:
        return WORDS[self.name][1]

    @property
    def level(self) -> int:
        return WORDS[self.name][0]


WORDS: dict[str, tuple[int, str]] = {
    "worker.joined": (logging.INFO, "worker joined and takes work"),
    "worker.stopping": (logging.INFO, "worker is stopping and lets what runs finish"),
    "worker.left": (logging.INFO, "worker left; what it had not finished was handed back"),
    "worker.lost": (logging.WARNING, "worker lost its lease and stopped everything it ran"),
    "worker.marked_dead": (logging.WARNING, "a worker missed its heartbeat and was marked dead"),
    "worker.crashed": (logging.ERROR, "worker stopped by an error"),
    "process.started": (logging.INFO, "worker process started"),
    "process.died": (logging.ERROR, "worker process died and is started again"),
    "process.reloaded": (logging.INFO, "code changed; worker process is started again"),
    "task.retried": (logging.WARNING, "task failed and will be tried again"),
    "task.failed": (logging.ERROR, "task failed"),
    "task.cancelled": (logging.INFO, "task was cancelled"),
    "task.snoozed": (logging.DEBUG, "task was put off"),
    "task.rescued": (logging.WARNING, "task of a dead worker was taken over"),
    "task.poison": (logging.ERROR, "task failed: its worker died each time it ran"),
    "task.refused": (logging.WARNING, "outcome refused: the task was no longer this worker's"),
    "task.abandoned": (logging.WARNING, "thread abandoned: its handler cannot be stopped"),
    "cron.declared": (logging.INFO, "cron discovered"),
    "cron.stopped": (logging.INFO, "cron is no longer declared and was stopped"),
    "kind.held_back": (logging.INFO, "kind is switched off, or its window has closed"),
    "kind.opened": (logging.INFO, "kind may run again"),
    "switch.unreadable": (logging.WARNING, "a switch cannot be read and is not followed"),
    "breaker.opened": (logging.ERROR, "breaker opened: too many errors in a row"),
    "breaker.probing": (logging.INFO, "breaker is probed with one task"),
    "breaker.closed": (logging.INFO, "breaker closed: the probe succeeded"),
    "ring.acquired": (logging.INFO, "buckets were taken over"),
    "ring.released": (logging.INFO, "buckets were given up to others"),
    "ring.offered": (logging.DEBUG, "rows were offered to workers that are idle"),
    "control.started": (logging.INFO, "run started"),
    "control.finished": (logging.INFO, "run finished"),
    "control.failed": (logging.ERROR, "run failed"),
    "control.lost": (logging.WARNING, "run was taken over, or released, under its holder"),
    "control.released": (logging.WARNING, "run was released by an operator"),
    "control.reset": (logging.WARNING, "run was reset by an operator and starts over"),
    "sweep.declared": (logging.INFO, "sweep discovered"),
    "sweep.stopped": (logging.WARNING, "sweep is no longer declared and was stopped"),
    "sweep.started": (logging.INFO, "round of a sweep started"),
    "sweep.ended": (logging.INFO, "round of a sweep ended"),
    "sweep.abandoned": (
        logging.WARNING,
        "round of a sweep was given up: its source is another one",
    ),
    "sweep.failed": (logging.ERROR, "source of a sweep cannot be read; it is tried again"),
    "range.rescued": (logging.WARNING, "range of a dead worker was taken over"),
    "range.poison": (logging.ERROR, "item failed as poison: its workers died while it ran"),
    "range.stolen": (logging.INFO, "range was split so that an idle worker has work"),
    "range.straggles": (logging.WARNING, "range will end long after the others"),
    "range.set_aside": (logging.WARNING, "items of a range failed"),
    "range.done": (logging.DEBUG, "range of a sweep is done"),
    "flow.started": (logging.INFO, "flow started"),
    "flow.ended": (logging.INFO, "run of a flow ended"),
    "flow.retried": (logging.INFO, "failed nodes of a run begin again"),
    "flow.skipped": (logging.WARNING, "node was skipped by an operator and counts as succeeded"),
    "flow.edited": (logging.INFO, "nodes or edges of a run were changed"),
    "external.submitted": (logging.DEBUG, "task was handed to an external system"),
    "external.silent": (logging.WARNING, "external system did not answer and is asked later"),
    "external.notified": (logging.DEBUG, "external system told how a task ended"),
    "external.uncancelled": (logging.WARNING, "external system did not cancel what it was asked"),
    "shard.joined": (logging.INFO, "a database joined the shards of the app"),
    "shard.down": (logging.WARNING, "a shard does not answer; the others go on without it"),
    "shard.back": (logging.INFO, "a shard answers again"),
    "shard.unserved": (logging.WARNING, "a shard has no worker here until it answers"),
    "shard.moved": (logging.INFO, "rows were moved to another shard"),
    "prune.done": (logging.DEBUG, "old rows were pruned"),
    "database.failed": (logging.WARNING, "database call failed and is tried again"),
    "database.back": (logging.INFO, "database answers again"),
    "members.away": (logging.WARNING, "etcd or ZooKeeper is away; nobody is taken for dead"),
    "members.back": (logging.INFO, "etcd or ZooKeeper answers again"),
    "loop.failed": (logging.ERROR, "a loop of the worker failed and goes on"),
}

# A library is silent unless its user has set up logging.
log.addHandler(logging.NullHandler())

_listeners: list[Listener] = []
_lock = threading.Lock()


def emit(name: str, /, **fields: object) -> None:
    """Tell that `name` happened. Never raises: an observer must not break the work."""
    event = Event(name, fields)
    if log.isEnabledFor(event.level):
        log.log(event.level, event.message, extra={"windlass": event})
    for listener in _listeners:
        try:
            listener(event)
        except Exception:
            log.exception("an event listener failed")


def subscribe(listener: Listener) -> Callable[[], None]:
    """Call `listener` for every event from now on; returns what ends it."""
    with _lock:
        _listeners.append(listener)

    def unsubscribe() -> None:
        with _lock:
            if listener in _listeners:
                _listeners.remove(listener)

    return unsubscribe
