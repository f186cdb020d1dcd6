"""The table of all metrics: their names, types, labels and meaning.

A label is the name of a kind, a queue or a downstream, the number of a shard, or a word of a closed
list. So the number of series has a bound: at most MOST_KINDS kinds have a name, and all others
together are the kind `other`; queues and downstreams alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from windlass.value.metric import CALL_BOUNDS, RUN_BOUNDS

MOST_KINDS = 100
OTHER = "other"

Type = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True)
class Metric:
    """One metric."""

    name: str
    type: Type
    labels: tuple[str, ...]
    help: str
    # Of a histogram: the upper bounds of its buckets.
    bounds: Sequence[float] = ()
    # How the values of several processes become one.
    together: Literal["sum", "max", "min"] = "sum"


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"windlass_{name}_total", "counter", labels, text)


def _gauge(
    name: str, text: str, *labels: str, together: Literal["sum", "max", "min"] = "sum"
) -> Metric:
    return Metric(f"windlass_{name}", "gauge", labels, text, together=together)


def _histogram(name: str, text: str, bounds: Sequence[float], *labels: str) -> Metric:
    return Metric(f"windlass_{name}_seconds", "histogram", labels, text, bounds)


HEARTBEAT_AGE = "windlass_worker_heartbeat_age_seconds"

# What one process did: a worker, the console, or your own process.
PROCESS = (
    _gauge("info", "1; the version of Windlass is a label", "version", together="max"),
    _counter("task_enqueued", "Tasks that this process enqueued", "kind"),
    _counter("task_started", "Runs of handlers that began", "kind"),
    _counter("task_done", "Tasks and items that ended without an error", "kind"),
    _counter("task_failed", "Tasks and items that failed and are not retried", "kind"),
    _counter("task_retried", "Tries that failed and are retried", "kind"),
    _histogram("task_duration", "How long handlers ran", RUN_BOUNDS, "kind"),
    _histogram("task_wait", "From the due time of a task to its start", RUN_BOUNDS, "kind"),
    _gauge("task_running", "Handlers that run now", "kind"),
    _gauge("task_ready", "Rows that were fetched and wait for their start", "kind"),
    _gauge("task_in_flight", "Rows from the fetch until their outcome is written"),
    _gauge("worker_concurrency", "How many handlers may run at once"),
    _gauge("worker_abandoned_threads", "Threads of handlers that did not stop in time"),
    _histogram("claim", "How long it took to ask the database for due rows", CALL_BOUNDS),
    _counter("claim_rows", "Rows that were fetched", "way"),
    _histogram("commit", "How long group commits of outcomes took", CALL_BOUNDS),
    _counter("commit_rows", "Outcomes that were written"),
    _gauge(
        "worker_heartbeat_age_seconds",
        "Time since the lease was renewed, by the worker or its guard",
        "shard",
        together="max",
    ),
    _gauge("worker_buckets", "Buckets that the worker owns, of 256 in each shard", "shard"),
    _gauge("worker_guarded", "1 if a guard process can renew the lease", "shard", together="min"),
    _counter(
        "downstream_overloaded",
        "Runs that were put off because the downstream could bear no more",
        "downstream",
    ),
    _counter("event", "Events of this process", "event"),
    _counter("message_sent", "Messages that brokers have confirmed", "queue"),
    _counter("ledger_movement", "Movements that this process made in ledgers", "movement"),
)

# Only of processes that carry tasks to consumers, and of consumers.
CARRIED = (
    _gauge(
        "carrier_waiting",
        "Messages of a carried kind's queue that no consumer has taken",
        "kind",
        together="max",
    ),
    _counter("consumer_done", "Carried runs that ended without an error in a consumer", "kind"),
    _counter("consumer_failed", "Carried runs that failed in a consumer", "kind"),
    _gauge("consumer_running", "Handlers that run now in a consumer"),
)

# What the database says.
DATABASE = (
    _gauge("shard_up", "1 if the database answers", "shard"),
    _gauge("shard_read_seconds", "How long the reads for these metrics took", "shard"),
    _gauge("task_due", "Rows that are due and wait; exact up to 10,000", "kind", "shard"),
    _gauge(
        "task_oldest_due_age_seconds", "How long the oldest due row has waited", "kind", "shard"
    ),
    _gauge("breaker_state", "0 closed, 1 open, 2 probing", "kind", "shard"),
    _gauge("switch_off", "1 if an operator has paused the kind", "kind", "shard"),
    _gauge("window_closed", "1 if the time window of the kind is closed", "kind", "shard"),
    _gauge("worker_alive", "Workers whose lease has not ended", "shard"),
    _gauge("bucket_unowned", "Buckets without an owner, of 256", "shard"),
    _gauge("alert_open", "Open alerts, among the newest 500", "severity", "shard"),
    _gauge("rolling_items", "Items of a rolling kind", "kind"),
    _gauge("rolling_never_visited", "Items that were never visited", "kind"),
    _gauge("rolling_overdue", "Items that were not visited for longer than the period", "kind"),
    _gauge("rolling_oldest_age_seconds", "Time since the oldest last visit", "kind"),
    _gauge("rolling_period_seconds", "The period: each item is visited once in it", "kind"),
    _gauge("rolling_needed_rate", "Visits a second that the period needs", "kind"),
    _gauge("rolling_actual_rate", "Visits a second in the last 10 minutes", "kind"),
    _gauge("sweep_round", "The number of the round", "kind"),
    _gauge("sweep_running", "1 while a round is running", "kind"),
    _gauge("sweep_progress_ratio", "How much of the round is done, 0 to 1; an estimate", "kind"),
    _gauge("sweep_done", "Rows of the round that are done", "kind"),
    _gauge("sweep_failed", "Rows of the round that failed", "kind"),
    _gauge("outbox_waiting", "Messages that wait to be sent; exact up to 10,000", "queue"),
    _gauge("outbox_oldest_age_seconds", "How long the oldest of them has waited", "queue"),
    _gauge("message_retrying", "Received messages that are tried again", "queue"),
    _gauge("message_failed", "Messages that failed, received or to be sent", "queue"),
    _gauge("broker_up", "1 if the broker answered last; nothing before the first time", "queue"),
    _gauge("downstream_rate", "Starts a second that it allows now; nothing if any", "downstream"),
    _gauge(
        "downstream_concurrency",
        "Runs at once that it allows now; nothing if any number",
        "downstream",
    ),
    _gauge("downstream_in_use", "Permits of its concurrency that workers hold", "downstream"),
    _gauge(
        "downstream_held_back",
        "1 if a pause, its window or its breaker lets nothing start",
        "downstream",
    ),
    _gauge("promise_state", "0 kept, 1 at risk, 2 broken; nothing while unknown", "kind"),
)

METRICS = {metric.name: metric for metric in (*PROCESS, *CARRIED, *DATABASE)}


class KindNames:
    """Which kinds have a name of their own in metrics: the first that were declared."""

    def __init__(self, kinds: Iterable[str]) -> None:
        self.named: Collection[str] = dict.fromkeys(list(kinds)[:MOST_KINDS])

    def of(self, kind: str) -> str:
        """The label for a kind."""
        return kind if kind in self.named else OTHER
