"""Events: one stream that logs, metrics and the live line read.

Code emits an event by name, with its facts as fields. Only this file has the text and the log level
of each event. The text says what happened to what, so that a plain `logging.basicConfig` is enough.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from windlass.frame import users_frames

log = logging.getLogger("windlass")

Listener = Callable[["Event"], None]

OPTIONAL = re.compile(r"\[([^\]]*)\]")
FIELD = re.compile(r"\{(\w+)\}")
# The names that `logging` keeps for itself. Such a field gets "_" behind its name in a record.
RESERVED = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened."""

    name: str
    fields: dict[str, object]

    @property
    def message(self) -> str:
        """What happened, in words."""
        return _render(WORDS[self.name][1], self.fields)

    @property
    def level(self) -> int:
        return WORDS[self.name][0]


TRY = "[ (attempt {tries} of {most_tries})]"
# In a text `{name}` is a field. What is in brackets is left out if one of its fields is not there.
WORDS: dict[str, tuple[int, str]] = {
    "worker.joined": (logging.INFO, "worker {worker} joined[ (process {pid})]"),
    "worker.stopping": (
        logging.INFO,
        "worker {worker} is stopping: waiting for {running} running tasks",
    ),
    "worker.left": (
        logging.INFO,
        "worker {worker} left ({why}); {handed_back} unfinished tasks were returned to the queue",
    ),
    "worker.lost": (
        logging.WARNING,
        "worker {worker} lost its lease ({why}) and stopped {stopped} tasks",
    ),
    "worker.marked_dead": (
        logging.WARNING,
        "worker {worker} missed its heartbeat and was marked dead; it held {abandoned} rows",
    ),
    "worker.crashed": (logging.ERROR, "worker {worker} was stopped by an error: {error}"),
    "process.started": (logging.INFO, "worker process {process} started (pid {pid})"),
    "process.died": (
        logging.ERROR,
        "worker process {process} (pid {pid}) died with code {code} and is restarted",
    ),
    "app.default_database": (
        logging.WARNING,
        (
            "no database was given, so tasks are kept in the new file {file}; "
            "to choose another, give App a URL or set WINDLASS_DATABASE_URL"
        ),
    ),
    "process.serves": (logging.INFO, "{pages} are served at http://{address}"),
    "worker.guarded": (
        logging.WARNING,
        "worker {worker} was kept alive by its guard for {seconds} s: a handler may hold the GIL",
    ),
    "guard.started": (logging.INFO, "guard process started (pid {pid})"),
    "guard.died": (
        logging.WARNING,
        "guard process (pid {pid}) died with code {code} and is restarted",
    ),
    "guard.failed": (logging.WARNING, "guard process cannot renew the lease: {error}"),
    "child.started": (
        logging.DEBUG,
        "child process for handlers started (pid {pid}), ready after {milliseconds} ms",
    ),
    "child.died": (logging.WARNING, "child process for handlers (pid {pid}) {how}"),
    "process.reloaded": (logging.INFO, "code changed; worker process is restarted"),
    "trace.failed": (
        logging.WARNING,
        "spans or metrics could not be recorded: {error}; this is logged only once",
    ),
    "hook.failed": (logging.ERROR, "{hook} hook {name} failed: {error}"),
    "task.past": (logging.DEBUG, "task {kind}: at={at} has passed; it starts at once"),
    "task.started": (logging.DEBUG, "task {kind} {task}[ ({key})] started (attempt {attempt})"),
    "task.ended": (
        logging.DEBUG,
        "task {kind} {task}[ ({key})] ended after {milliseconds} ms[ by {error}]",
    ),
    "task.retried": (
        logging.WARNING,
        f"task {{kind}} {{task}} failed{TRY}: {{error}}; next try in {{again_in_seconds}} s",
    ),
    "task.failed": (
        logging.ERROR,
        f"task {{kind}} {{task}} failed{TRY}: {{error}}",
    ),
    "task.cancelled": (logging.INFO, "task {kind} {task} was cancelled[: {reason}]"),
    "task.overloaded": (
        logging.INFO,
        "task {kind} {task} met an overload and runs again in {seconds} s: {why}",
    ),
    "task.snoozed": (logging.DEBUG, "task {kind} {task} was snoozed for {seconds} s"),
    "task.rescued": (
        logging.WARNING,
        "task {kind} {task} of a dead worker was taken over (lost {lost} times)",
    ),
    "task.poison": (
        logging.ERROR,
        "task {kind} {task} failed as poison: its worker died each of {lost} times it ran",
    ),
    "task.refused": (
        logging.WARNING,
        "outcome of task {kind} {task} refused: the task no longer belongs to this worker",
    ),
    "carrier.silent": (logging.WARNING, "tasks of kind {kind} wait: {why}"),
    "carrier.stale": (
        logging.DEBUG,
        "a reply from the consumers of queue {queue} came twice or too late: {reply}",
    ),
    "carrier.misread": (logging.ERROR, "a reply in queue {queue} cannot be read: {error}"),
    "consumer.started": (logging.INFO, "consumer of queue {queue} started: it runs {kinds}"),
    "consumer.stopping": (
        logging.INFO,
        "consumer of queue {queue} is stopping: waiting for {running} running tasks",
    ),
    "consumer.stopped": (logging.INFO, "consumer of queue {queue} stopped; tasks run: {done}"),
    "consumer.refused": (
        logging.ERROR,
        "a message in queue {queue} was refused: {error}",
    ),
    "task.abandoned": (
        logging.WARNING,
        "thread of task {kind} {task} abandoned: its handler does not stop ({threads} so far)",
    ),
    "cron.declared": (logging.INFO, "cron {kind} discovered: {cron} ({tz})"),
    "cron.stopped": (logging.INFO, "cron {kind} is no longer declared and was stopped"),
    "kind.held_back": (logging.INFO, "kind {kind} is paused, or its window is closed"),
    "kind.opened": (logging.INFO, "kind {kind} may run again"),
    "window.holidays_failed": (logging.WARNING, "holidays of a window: {error}"),
    "switch.unreadable": (
        logging.WARNING,
        "switch of kind {kind} is not valid and is ignored: {error}",
    ),
    "breaker.opened": (
        logging.ERROR,
        "breaker of kind {kind} opened: {errors} errors in a row",
    ),
    "breaker.probing": (logging.INFO, "breaker of kind {kind} probes with one task"),
    "breaker.closed": (logging.INFO, "breaker of kind {kind} closed: the probe succeeded"),
    "ring.acquired": (
        logging.INFO,
        "worker {worker} took over {buckets} buckets and owns {owned}",
    ),
    "ring.released": (logging.INFO, "worker {worker} gave up {buckets} buckets and owns {owned}"),
    "ring.offered": (
        logging.DEBUG,
        "worker {worker} offered {rows} rows of kind {kind} to idle workers",
    ),
    "control.started": (logging.INFO, "control run {name}[ {partition}] started (try {tries})"),
    "control.finished": (
        logging.INFO,
        "control run {name}[ {partition}] finished in {run_seconds} s",
    ),
    "control.failed": (
        logging.ERROR,
        "control run {name}[ {partition}] failed[ at step {step}]: {error}",
    ),
    "control.lost": (
        logging.WARNING,
        "control run {name}[ {partition}] was taken over or released while it ran: {why}",
    ),
    "control.released": (
        logging.WARNING,
        "control run {name}[ {partition}] was released by {who}",
    ),
    "control.reset": (
        logging.WARNING,
        "control run {name}[ {partition}] was reset by {who} and starts over",
    ),
    "sweep.declared": (logging.INFO, "sweep {sweep} discovered: {source}"),
    "sweep.stopped": (logging.WARNING, "sweep {sweep} is no longer declared and was stopped"),
    "sweep.started": (
        logging.INFO,
        "round {round} of sweep {sweep} started in {ranges} ranges[, about {rows} rows]",
    ),
    "sweep.run": (logging.INFO, "run {sweep} was started over {source}"),
    "sweep.cancelled": (logging.WARNING, "run {sweep} was cancelled"),
    "sweep.ended": (
        logging.INFO,
        "round {round} of sweep {sweep} ended: {done} done, {failed} failed, {repeated} repeated",
    ),
    "sweep.abandoned": (
        logging.WARNING,
        "round {round} of sweep {sweep} was abandoned after {done} rows: its source has changed",
    ),
    "sweep.overloaded": (
        logging.INFO,
        "sweep {sweep}: {items} items met an overload and are tried again",
    ),
    "sweep.failed": (
        logging.ERROR,
        "source of sweep {sweep} cannot be read; it is retried: {error}",
    ),
    "range.rescued": (
        logging.WARNING,
        "range {range} of sweep {sweep} was taken over from a dead worker (lost {lost} times)",
    ),
    "range.poison": (
        logging.ERROR,
        "item {key} of sweep {sweep} failed as poison: its workers died while it ran",
    ),
    "range.stolen": (logging.INFO, "range {range} of sweep {sweep} was split for an idle worker"),
    "range.straggles": (
        logging.WARNING,
        "range {range} of sweep {sweep} will end long after the others",
    ),
    "range.set_aside": (
        logging.WARNING,
        "{items} items of sweep {sweep} (range {range}) failed; the first is {key}: {error}",
    ),
    "range.done": (logging.DEBUG, "range {range} of sweep {sweep} is done: {done} rows"),
    "flow.started": (logging.INFO, "flow {flow} started: flow run {run} with {nodes} nodes"),
    "flow.ended": (logging.INFO, "flow run {run} ended: {status}"),
    "flow.retried": (logging.INFO, "flow run {run}: {nodes} failed nodes are retried"),
    "flow.skipped": (
        logging.WARNING,
        "flow run {run}: node {node} was skipped by an operator and counts as succeeded",
    ),
    "flow.edited": (
        logging.INFO,
        "flow run {run}: nodes or edges were changed; {nodes} nodes are new",
    ),
    "external.submitted": (
        logging.DEBUG,
        "task {kind} {task} was submitted to its external system as {handle}",
    ),
    "external.silent": (
        logging.WARNING,
        "external system of kind {kind} did not answer and is called later: {error}",
    ),
    "external.notified": (
        logging.DEBUG,
        "external system reported how task {kind} {task} ended (ok: {ok})",
    ),
    "external.uncancelled": (
        logging.WARNING,
        "external system did not cancel {handle}: {error}",
    ),
    "queue.failed": (
        logging.WARNING,
        "queue {queue}: {error}; it is tried again",
    ),
    "queue.back": (logging.INFO, "queue {queue}: the broker at {broker} answers again"),
    "queue.full": (
        logging.WARNING,
        "queue {queue}: the broker refused {messages} messages, which are sent again: {error}",
    ),
    "outbox.sent": (logging.DEBUG, "queue {queue}: {messages} messages were sent"),
    "message.failed": (logging.ERROR, "message {message} of queue {queue} failed: {error}"),
    "message.refused": (logging.WARNING, "kind {kind}: the id of a message is wrong: {error}"),
    "shard.joined": (logging.INFO, "{shard} became shard {place} of the app"),
    "shard.down": (
        logging.WARNING,
        "shard {shard} does not answer; the others continue: {error}",
    ),
    "shard.back": (logging.INFO, "shard {shard} answers again"),
    "shard.unserved": (
        logging.WARNING,
        "shard {shard} has no worker here until it answers: {error}",
    ),
    "shard.moved": (logging.INFO, "{rows} rows were moved from {source} to {target}"),
    "prune.done": (logging.DEBUG, "{rows} old rows were pruned"),
    "database.failed": (
        logging.WARNING,
        "[{database}: ][loop {loop}: ]database call failed and is retried: {error}",
    ),
    "database.back": (logging.INFO, "loop {loop}: database answers again"),
    "database.endangered": (logging.WARNING, "{database}: database file can be damaged: {hazard}"),
    "members.away": (
        logging.WARNING,
        "{kind} is away; no worker is marked dead: {error}",
    ),
    "members.back": (logging.INFO, "{kind} answers again after {away_seconds} s"),
    "loop.failed": (
        logging.ERROR,
        "loop {loop} of the worker failed and continues: {error}",
    ),
    "alert.raised": (logging.WARNING, "alert raised: {text}"),
    "alert.resolved": (logging.INFO, "alert resolved: {text}"),
    "hot.failed": (logging.WARNING, "hot lane {lane} cannot do its housekeeping: {error}"),
    "hot.epoch": (logging.WARNING, "hot lane {lane} began epoch {epoch}: {why}"),
    "alert.unwritten": (logging.ERROR, "alert {what} was not written: {error}"),
    "alert.undelivered": (logging.WARNING, "alert was not delivered to {channel}: {error}"),
    "beat.failed": (logging.WARNING, "heartbeat URL[ of kind {kind}] did not answer: {error}"),
    "schema.behind": (
        logging.WARNING,
        "tables of {database} have version {version}, which is old; run windlass migrate",
    ),
    "schema.changed": (
        logging.INFO,
        "tables of {database} have version {version} now (before: {before})",
    ),
    "schema.refused": (logging.ERROR, "{database} {problem}"),
    "clock.stepped": (
        logging.ERROR,
        "the clock of {database} stepped by {seconds} s; nothing is lost by that",
    ),
}

# Listeners do not get these: there may be thousands a second.
LOG_ONLY = frozenset({"task.started", "task.ended"})

_listeners: list[Listener] = []
_lock = threading.Lock()


def emit(name: str, cause: BaseException | None = None, /, **fields: object) -> None:
    """Emit the event `name`. Never raises: a listener must not break the work.

    Logs show the traceback of the `cause`.
    """
    event = Event(name, fields)
    if log.isEnabledFor(event.level):
        _log(event, cause)
    if name in LOG_ONLY:
        return
    for listener in _listeners:
        try:
            listener(event)
        except Exception:
            log.exception("an event listener failed")


def _log(event: Event, cause: BaseException | None) -> None:
    exc_info = None if cause is None else (type(cause), cause, users_frames(cause))
    extra: dict[str, object] = {"windlass": event, "event": event.name}
    for name, value in event.fields.items():
        extra[f"{name}_" if name in RESERVED else name] = value
    log.log(event.level, event.message, exc_info=exc_info, extra=extra)


def _render(words: str, fields: Mapping[str, object]) -> str:
    def known(part: re.Match[str]) -> str:
        return part[1] if all(_shown(fields.get(name)) for name in FIELD.findall(part[1])) else ""

    kept = OPTIONAL.sub(known, words)
    return FIELD.sub(lambda field: _shown(fields.get(field[1], "?")), kept)


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    # The other lines of an error are in the field, and in the traceback.
    return "" if value is None else str(value).strip().partition("\n")[0]


def subscribe(listener: Listener) -> Callable[[], None]:
    """Call `listener` for every event from now on; returns the function that ends it."""
    with _lock:
        _listeners.append(listener)

    def unsubscribe() -> None:
        with _lock:
            if listener in _listeners:
                _listeners.remove(listener)

    return unsubscribe
