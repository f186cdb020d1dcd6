"""Events: one stream that logs, metrics and the live line read.

Code emits an event by name, with its facts as fields. Only this file has the text and the log level
of each event.
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
    "worker.joined": (logging.INFO, "worker joined"),
    "worker.stopping": (logging.INFO, "worker is stopping: waiting for running tasks"),
    "worker.left": (logging.INFO, "worker left; unfinished tasks were returned to the queue"),
    "worker.lost": (logging.WARNING, "worker lost its lease and stopped its tasks"),
    "worker.marked_dead": (logging.WARNING, "a worker missed its heartbeat and was marked dead"),
    "worker.crashed": (logging.ERROR, "worker stopped by an error"),
    "worker.guarded": (
        logging.WARNING,
        "heartbeat could not run: a handler may hold the GIL; the guard kept the worker alive",
    ),
    "guard.started": (logging.INFO, "guard process started"),
    "guard.died": (logging.WARNING, "guard process died and is restarted"),
    "guard.failed": (logging.WARNING, "guard process cannot renew the lease"),
    "process.started": (logging.INFO, "worker process started"),
    "process.died": (logging.ERROR, "worker process died and is restarted"),
    "process.reloaded": (logging.INFO, "code changed; worker process is restarted"),
    "task.retried": (logging.WARNING, "task failed and will be retried"),
    "task.failed": (logging.ERROR, "task failed"),
    "task.cancelled": (logging.INFO, "task was cancelled"),
    "task.snoozed": (logging.DEBUG, "task was snoozed"),
    "task.rescued": (logging.WARNING, "task of a dead worker was taken over"),
    "task.poison": (logging.ERROR, "task failed: its worker died each time it ran"),
    "task.refused": (logging.WARNING, "outcome refused: the task no longer belongs to this worker"),
    "task.abandoned": (logging.WARNING, "thread abandoned: its handler does not stop"),
    "cron.declared": (logging.INFO, "cron discovered"),
    "cron.stopped": (logging.INFO, "cron is no longer declared and was stopped"),
    "kind.held_back": (logging.INFO, "kind is paused, or its window is closed"),
    "kind.opened": (logging.INFO, "kind may run again"),
    "switch.unreadable": (logging.WARNING, "a switch is not valid and is ignored"),
    "breaker.opened": (logging.ERROR, "breaker opened: too many errors in a row"),
    "breaker.probing": (logging.INFO, "breaker probes with one task"),
    "breaker.closed": (logging.INFO, "breaker closed: the probe succeeded"),
    "ring.acquired": (logging.INFO, "buckets were taken over"),
    "ring.released": (logging.INFO, "buckets were given up"),
    "ring.offered": (logging.DEBUG, "rows were offered to idle workers"),
    "control.started": (logging.INFO, "run started"),
    "control.finished": (logging.INFO, "run finished"),
    "control.failed": (logging.ERROR, "run failed"),
    "control.lost": (logging.WARNING, "run was taken over or released while its holder ran it"),
    "control.released": (logging.WARNING, "run was released by an operator"),
    "control.reset": (logging.WARNING, "run was reset by an operator and starts over"),
    "sweep.declared": (logging.INFO, "sweep discovered"),
    "sweep.stopped": (logging.WARNING, "sweep is no longer declared and was stopped"),
    "sweep.started": (logging.INFO, "round of a sweep started"),
    "sweep.ended": (logging.INFO, "round of a sweep ended"),
    "sweep.abandoned": (logging.WARNING, "round of a sweep was abandoned: its source has changed"),
    "sweep.failed": (logging.ERROR, "source of a sweep cannot be read; it is retried"),
    "range.rescued": (logging.WARNING, "range of a dead worker was taken over"),
    "range.poison": (logging.ERROR, "item failed as poison: its workers died while it ran"),
    "range.stolen": (logging.INFO, "range was split for an idle worker"),
    "range.straggles": (logging.WARNING, "range will end long after the others"),
    "range.set_aside": (logging.WARNING, "items of a range failed"),
    "range.done": (logging.DEBUG, "range of a sweep is done"),
    "flow.started": (logging.INFO, "flow started"),
    "flow.ended": (logging.INFO, "flow run ended"),
    "flow.retried": (logging.INFO, "failed nodes of a flow run are retried"),
    "flow.skipped": (logging.WARNING, "node was skipped by an operator and counts as succeeded"),
    "flow.edited": (logging.INFO, "nodes or edges of a flow run were changed"),
    "external.submitted": (logging.DEBUG, "task was submitted to an external system"),
    "external.silent": (
        logging.WARNING,
        "external system did not answer; the call is repeated later",
    ),
    "external.notified": (logging.DEBUG, "external system reported how a task ended"),
    "external.uncancelled": (logging.WARNING, "external system did not cancel a task"),
    "shard.joined": (logging.INFO, "a database became a shard of the app"),
    "shard.down": (logging.WARNING, "a shard does not answer; the others continue"),
    "shard.back": (logging.INFO, "a shard answers again"),
    "shard.unserved": (logging.WARNING, "a shard has no worker here until it answers"),
    "shard.moved": (logging.INFO, "rows were moved to another shard"),
    "alert.raised": (logging.WARNING, "alert raised"),
    "alert.resolved": (logging.INFO, "alert resolved: its cause is gone"),
    "alert.undelivered": (logging.WARNING, "alert was not delivered to a channel"),
    "beat.failed": (logging.WARNING, "heartbeat URL did not answer"),
    "prune.done": (logging.DEBUG, "old rows were pruned"),
    "database.failed": (logging.WARNING, "database call failed and is retried"),
    "database.back": (logging.INFO, "database answers again"),
    "schema.behind": (logging.WARNING, "tables are older than this Windlass; run windlass migrate"),
    "schema.changed": (logging.INFO, "tables have another version now"),
    "schema.refused": (logging.ERROR, "tables are newer than this Windlass knows; upgrade it"),
    "clock.stepped": (logging.ERROR, "the clock of the database stepped; nothing is lost by that"),
    "database.endangered": (logging.WARNING, "database file can be damaged"),
    "members.away": (logging.WARNING, "etcd or ZooKeeper is away; no worker is marked dead"),
    "members.back": (logging.INFO, "etcd or ZooKeeper answers again"),
    "loop.failed": (logging.ERROR, "a loop of the worker failed and continues"),
}

# A library is silent unless its user has set up logging.
log.addHandler(logging.NullHandler())

_listeners: list[Listener] = []
_lock = threading.Lock()


def emit(name: str, /, **fields: object) -> None:
    """Emit the event `name`. Never raises: a listener must not break the work."""
    event = Event(name, fields)
    if log.isEnabledFor(event.level):
        log.log(event.level, event.message, extra={"windlass": event})
    for listener in _listeners:
        try:
            listener(event)
        except Exception:
            log.exception("an event listener failed")


def subscribe(listener: Listener) -> Callable[[], None]:
    """Call `listener` for every event from now on; returns the function that ends it."""
    with _lock:
        _listeners.append(listener)

    def unsubscribe() -> None:
        with _lock:
            if listener in _listeners:
                _listeners.remove(listener)

    return unsubscribe
