"""The tables: one definition for SQLite, PostgreSQL, MySQL and MariaDB.

Times are whole microseconds since the epoch, UTC. `database/migration` builds the same tables, and
a test compares both.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    text,
)

from windlass.database.column import OPTIONS, Exact, Json, Long, Number, StatusCode, partial_index

metadata = MetaData()
ZERO = text("0")


def _table(name: str, *parts: Column[Any] | Index | CheckConstraint) -> Table:
    return Table(f"windlass_{name}", metadata, *parts, **OPTIONS)


task = _table(
    "task",
    Column("id", Number, primary_key=True, autoincrement=False),
    Column("kind", Exact(100), nullable=False),
    Column("task_key", Exact(255)),
    Column("bucket", SmallInteger, nullable=False),
    Column("status", StatusCode, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("due_at", BigInteger),
    Column("batch", BigInteger),
    Column("worker", BigInteger),
    Column("attempt", Integer, nullable=False, server_default=ZERO),
    Column("lost", SmallInteger, nullable=False, server_default=ZERO),
    # Lost runs since a run last ended normally: they decide whether the task is poison.
    Column("lost_in_a_row", SmallInteger, nullable=False, server_default=ZERO),
    Column("last_status", StatusCode),
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Column("finished_at", BigInteger),
    Column("prune_at", BigInteger),
    Column("flow_id", BigInteger),
    Column("node", Exact(255)),
    Column("open_slots", Integer),
    Column("payload", Json, nullable=False),
    Column("result", Json),
    Column("remark", Long),
    # For the claim: due rows of one kind and priority, oldest first, with their bucket.
    partial_index(
        "windlass_task_due",
        "status",
        "kind",
        "priority",
        "due_at",
        "bucket",
        where="due_at is not null",
    ),
    partial_index(
        "windlass_task_key", "kind", "task_key", where="task_key is not null", unique=True
    ),
    partial_index("windlass_task_prune", "prune_at", where="prune_at is not null"),
    # For lists: rows of a kind that ended or are blocked, newest first.
    partial_index("windlass_task_undue", "status", "kind", "id", where="due_at is null"),
    # The nodes of a flow run, including the row of the run itself.
    partial_index("windlass_task_flow", "flow_id", "node", where="flow_id is not null"),
)

# The edges of flows: `task_id` waits for `dep_id`. The slot is filled when `dep_id` has ended; the
# waiting row counts its unfilled slots in `open_slots`.
slot = _table(
    "slot",
    Column("dep_id", BigInteger, primary_key=True, autoincrement=False),
    Column("task_id", BigInteger, primary_key=True, autoincrement=False),
    Column("rule", StatusCode, nullable=False),
    Index("windlass_slot_task", "task_id"),
)

# Flows drawn in the console or loaded: the nodes and edges of each version.
flow_template = _table(
    "flow_template",
    Column("name", Exact(100), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("spec", Json, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

# Submissions of tasks to external systems, with the system's handle and the secret for its
# callback. Old submissions stay, so that late messages about them are recognised.
external = _table(
    "external",
    Column("task_id", Number, primary_key=True, autoincrement=False),
    Column("submission", Integer, primary_key=True, autoincrement=False),
    Column("kind", Exact(100), nullable=False),
    Column("handle", Exact(255)),
    Column("secret", Exact(64), nullable=False),
    # 0: current; 1: it failed in the external system; 2: replaced by an operator's retry.
    Column("past", SmallInteger, nullable=False, server_default=ZERO),
    # The number of the try since the task was enqueued or retried by an operator.
    Column("tries", Integer, nullable=False, server_default=text("1")),
    # When it was first submitted, even if the system did not answer.
    Column("began_at", BigInteger, nullable=False),
    # Polls in a row without news; after a cancel request, tries to cancel it.
    Column("polls", Integer, nullable=False, server_default=ZERO),
    # How it ended, if the system reported that before its handle was stored.
    Column("told", Json),
    # When to ask the system next to cancel it.
    Column("cancel_at", BigInteger),
    Index("windlass_external_handle", "handle"),
    partial_index("windlass_external_cancel", "kind", "cancel_at", where="cancel_at is not null"),
)

worker = _table(
    "worker",
    Column("id", Number, primary_key=True, autoincrement=False),
    Column("host", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("token", BigInteger),
    Column("lease_until", BigInteger, nullable=False),
    Column("idle", SmallInteger, nullable=False, server_default=ZERO),
    Column("joined_at", BigInteger, nullable=False),
    Column("left_at", BigInteger),
    Column("left_why", String(255)),
    Column("kinds", Json, nullable=False),
    Index("windlass_worker_left", "left_at"),
)

failure = _table(
    "failure",
    Column("id", Number, primary_key=True, autoincrement=False),
    Column("task_id", BigInteger, nullable=False),
    Column("kind", Exact(100), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("worker", BigInteger),
    Column("failed_at", BigInteger, nullable=False),
    Column("error", Long, nullable=False),
    Column("trace", Long, nullable=False),
    Index("windlass_failure_kind", "kind", "id"),
    Index("windlass_failure_task", "task_id"),
)

stat = _table(
    "stat",
    Column("minute", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Exact(100), primary_key=True),
    Column("worker", BigInteger, primary_key=True, autoincrement=False),
    Column("done", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("retried", BigInteger, nullable=False),
    Column("milliseconds", BigInteger, nullable=False),
)

alert = _table(
    "alert",
    Column("id", Number, primary_key=True, autoincrement=False),
    Column("what", Exact(100), nullable=False),
    Column("kind", Exact(100)),
    Column("task_id", BigInteger),
    Column("raised_at", BigInteger, nullable=False),
    Column("text", Long, nullable=False),
    Index("windlass_alert_raised", "raised_at"),
)

# Who acknowledged the alerts of one sort and kind: up to `seen_at`, or all until `quiet_until`.
acknowledgement = _table(
    "acknowledgement",
    Column("what", Exact(100), primary_key=True),
    Column("kind", Exact(100), primary_key=True),
    Column("who", String(255), nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Column("quiet_until", BigInteger),
)

# Settings of a kind by an operator or a breaker. Null: as declared.
switch = _table(
    "switch",
    Column("kind", Exact(100), primary_key=True),
    Column("off", SmallInteger, nullable=False, server_default=ZERO),
    Column("reason", Long),
    Column("who", String(255)),
    Column("since", BigInteger),
    Column("time_window", String(255)),
    Column("rate", String(50)),
    Column("concurrency", Integer),
    Column("breaker", SmallInteger, nullable=False, server_default=ZERO),
    Column("errors_in_a_row", Integer, nullable=False, server_default=ZERO),
    Column("opened_at", BigInteger),
    Column("probe_at", BigInteger),
    Column("pause", BigInteger),
    Column("probe_worker", BigInteger),
)

# When the next task of a kind with a rate may start: one clock for all workers.
rate = _table(
    "rate",
    Column("kind", Exact(100), primary_key=True),
    Column("next_at", BigInteger, nullable=False),
    Column("per_second", Double, nullable=False),
)

# The number of items of rolling kinds, as a sum of changes. Each transaction appends its change, so
# none waits for another. Maintenance adds up the changes of a kind.
tally = _table(
    "tally",
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("kind", Exact(100), nullable=False),
    Column("delta", BigInteger, nullable=False),
    Index("windlass_tally_kind", "kind"),
)

# Control runs, one at a time for each name and partition, and their progress.
control = _table(
    "control",
    Column("name", Exact(255), primary_key=True),
    Column("partition_id", Exact(255), primary_key=True),
    Column("status", StatusCode, nullable=False, server_default=text("9")),
    Column("stat_date", String(10)),
    Column("step", Exact(255)),
    Column("steps", Json),
    Column("first_time", BigInteger),
    Column("start_time", BigInteger),
    Column("expire_time", BigInteger),
    Column("end_time", BigInteger),
    Column("run_seconds", Double),
    Column("error", Long),
    Column("data", Json),
    Column("batch", BigInteger),
    Column("tries", Integer, nullable=False, server_default=ZERO),
    Column("who", String(255)),
    Column("progress_done", BigInteger),
    Column("progress_total", BigInteger),
)

# Ended tries of control runs, numbered in the order of their ends.
control_run = _table(
    "control_run",
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("name", Exact(255), nullable=False),
    Column("partition_id", Exact(255), nullable=False),
    Column("status", StatusCode, nullable=False),
    Column("batch", BigInteger),
    Column("stat_date", String(10)),
    Column("step", Exact(255)),
    Column("steps", Json),
    Column("first_time", BigInteger),
    Column("start_time", BigInteger),
    Column("end_time", BigInteger),
    Column("run_seconds", Double),
    Column("error", Long),
    Column("data", Json),
    Column("tries", Integer, nullable=False),
    Column("who", String(255)),
    Index("windlass_control_run_name", "name", "partition_id", "id"),
)

# The owner of each bucket; rows due before `careful_to` are claimed, not read.
bucket = _table(
    "bucket",
    Column("bucket", SmallInteger, primary_key=True, autoincrement=False),
    Column("owner", BigInteger),
    Column("careful_to", BigInteger, nullable=False, server_default=ZERO),
)

# Due rows that their owner offers to all workers; they have batch 0.
offer = _table(
    "offer",
    Column("task_id", Number, primary_key=True, autoincrement=False),
    Column("kind", Exact(100), nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Index("windlass_offer_due", "kind", "due_at"),
)

# Sweeps, and the current round of each.
sweep = _table(
    "sweep",
    Column("name", Exact(100), primary_key=True),
    Column("status", StatusCode, nullable=False, server_default=ZERO),
    Column("round", BigInteger, nullable=False, server_default=ZERO),
    # The number of ranges in a round, and the number in the declaration.
    Column("ranges", Integer, nullable=False),
    Column("declared_ranges", Integer, nullable=False),
    Column("redo", BigInteger),
    Column("rows_estimate", BigInteger),
    Column("started_at", BigInteger),
    Column("ended_at", BigInteger),
    # When the next round begins; null: when an operator starts it.
    Column("due_at", BigInteger),
    # The worker that is splitting the source into ranges.
    Column("starter", BigInteger),
    Column("stopped_at", BigInteger),
    Column("source", Long),
    Column("error", Long),
)

# The ranges of a round. Keys are JSON texts, compared for equality only; null is an open end.
range_ = _table(
    "range",
    Column("id", Number, primary_key=True, autoincrement=False),
    Column("sweep", Exact(100), nullable=False),
    Column("round", BigInteger, nullable=False),
    Column("range_begin", Exact(1000)),
    Column("range_end", Exact(1000)),
    Column("breakpoint", Exact(1000)),
    Column("read_to", Exact(1000)),
    Column("status", StatusCode, nullable=False, server_default=ZERO),
    Column("batch", BigInteger),
    Column("worker", BigInteger),
    Column("done", BigInteger, nullable=False, server_default=ZERO),
    Column("failed", BigInteger, nullable=False, server_default=ZERO),
    Column("repeated", BigInteger, nullable=False, server_default=ZERO),
    Column("rows_estimate", BigInteger, nullable=False, server_default=ZERO),
    Column("per_second", Double, nullable=False, server_default=ZERO),
    Column("lost", SmallInteger, nullable=False, server_default=ZERO),
    Column("lost_at", Exact(1000)),
    Column("again_to", Exact(1000)),
    Column("careful", SmallInteger, nullable=False, server_default=ZERO),
    Column("saved_at", BigInteger),
    Index("windlass_range_round", "sweep", "round", "status"),
    Index("windlass_range_worker", "worker"),
    Index("windlass_range_free", "status", "careful", "batch"),
)

# The rounds that ended.
round_ = _table(
    "round",
    Column("sweep", Exact(100), primary_key=True),
    Column("round", BigInteger, primary_key=True, autoincrement=False),
    Column("started_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("repeated", BigInteger, nullable=False),
    Column("ranges", Integer, nullable=False),
)

# Failed items of sweeps, each once; while an item is retried it has a batch.
sweep_failure = _table(
    "sweep_failure",
    Column("id", Number, primary_key=True, autoincrement=False),
    Column("sweep", Exact(100), nullable=False),
    Column("key_hash", Exact(32), nullable=False),
    Column("item_key", Exact(1000), nullable=False),
    Column("round", BigInteger, nullable=False),
    Column("failed_at", BigInteger, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("retry_at", BigInteger),
    Column("batch", BigInteger),
    Column("worker", BigInteger),
    Column("error", Long, nullable=False),
    Index("windlass_sweep_failure_key", "sweep", "key_hash", unique=True),
    Index("windlass_sweep_failure_retry", "sweep", "retry_at"),
    partial_index("windlass_sweep_failure_worker", "worker", where="worker is not null"),
)

# The last visit of single keys of sweeps.
visit = _table(
    "visit",
    Column("sweep", Exact(100), primary_key=True),
    Column("key_hash", Exact(32), primary_key=True),
    Column("item_key", Exact(1000), nullable=False),
    Column("visited_at", BigInteger, nullable=False),
    Column("status", StatusCode, nullable=False),
    Column("error", Long),
    Index("windlass_visit_visited", "visited_at"),
)

# The stock of each SKU. The checks are a second guard: the statements have their own.
stock = _table(
    "stock",
    Column("sku", Exact(255), primary_key=True),
    Column("available", BigInteger, nullable=False, server_default=ZERO),
    Column("received", BigInteger, nullable=False, server_default=ZERO),
    Column("deducted", BigInteger, nullable=False, server_default=ZERO),
    Column("returned", BigInteger, nullable=False, server_default=ZERO),
    CheckConstraint("available >= 0", name="windlass_stock_available"),
    CheckConstraint("returned >= 0 and returned <= deducted", name="windlass_stock_returned"),
    CheckConstraint("received = available + deducted - returned", name="windlass_stock_balance"),
)

# Restocks and adjustments by the callers' ids, with the answers.
stock_receipt = _table(
    "stock_receipt",
    Column("movement", Exact(10), primary_key=True),
    Column("id", Exact(255), primary_key=True),
    Column("body", Json, nullable=False),
    Column("refusal", Json),
    Column("created_at", BigInteger, nullable=False),
)

# Deductions by the callers' ids; a row without a body marks a deduction that was voided first.
deduction = _table(
    "deduction",
    Column("id", Exact(255), primary_key=True),
    Column("status", StatusCode, nullable=False),
    Column("body", Json),
    Column("refusal", Json),
    Column("hold_until", BigInteger),
    Column("confirmed_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Index("windlass_deduction_created", "created_at", "id"),
)

deduction_line = _table(
    "deduction_line",
    Column("deduction_id", Exact(255), primary_key=True),
    Column("sku", Exact(255), primary_key=True),
    Column("quantity", BigInteger, nullable=False),
    Column("returned", BigInteger, nullable=False, server_default=ZERO),
    CheckConstraint("quantity > 0", name="windlass_deduction_line_quantity"),
    CheckConstraint(
        "returned >= 0 and returned <= quantity", name="windlass_deduction_line_returned"
    ),
)

# Returns by the callers' ids, with the answers.
stock_return = _table(
    "stock_return",
    Column("deduction_id", Exact(255), primary_key=True),
    Column("return_id", Exact(255), primary_key=True),
    Column("body", Json, nullable=False),
    Column("refusal", Json),
    Column("created_at", BigInteger, nullable=False),
    Index("windlass_stock_return_created", "created_at", "deduction_id", "return_id"),
)

return_line = _table(
    "return_line",
    Column("deduction_id", Exact(255), primary_key=True),
    Column("return_id", Exact(255), primary_key=True),
    Column("sku", Exact(255), primary_key=True),
    Column("quantity", BigInteger, nullable=False),
    CheckConstraint("quantity > 0", name="windlass_return_line_quantity"),
)

# Every change of available stock, append-only: the sum of the changes is the balance.
stock_entry = _table(
    "stock_entry",
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("sku", Exact(255), nullable=False),
    Column("quantity", BigInteger, nullable=False),
    Column("movement", Exact(10), nullable=False),
    Column("reference", Exact(255), nullable=False),
    Column("return_id", Exact(255)),
    Column("created_at", BigInteger, nullable=False),
    Index("windlass_stock_entry_sku", "sku", "id"),
    CheckConstraint("quantity <> 0", name="windlass_stock_entry_quantity"),
)

# Actions of operators: who, when, what, on which row, and the outcome.
audit = _table(
    "audit",
    Column("id", Number, primary_key=True, autoincrement=False),
    Column("acted_at", BigInteger, nullable=False),
    Column("who", String(255), nullable=False),
    Column("via", Exact(20), nullable=False),
    Column("address", String(100)),
    Column("action", Exact(100), nullable=False),
    Column("about", Exact(300)),
    Column("detail", Json),
    # Null while it is under way, or if its process died meanwhile.
    Column("ok", SmallInteger),
    Column("outcome", Long),
    Index("windlass_audit_acted", "acted_at", "id"),
)

# This database among the shards: one row.
shard = _table(
    "shard",
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    # Its place among the shards: the high bits of its numbers.
    Column("place", SmallInteger, nullable=False, server_default=ZERO),
    # The name of its ring, and where the ring's members are stored.
    Column("ring", Exact(32), nullable=False),
    Column("members", String(255), nullable=False),
    # Whether it takes no new rows.
    Column("draining", SmallInteger, nullable=False, server_default=ZERO),
    # The roster and its number; null in a single database.
    Column("number", BigInteger, nullable=False, server_default=ZERO),
    Column("roster", Json),
    # The rows that are moving to another shard.
    Column("moving", Json),
)

# Numbers for rows, batches and workers, taken in blocks. PostgreSQL uses a sequence.
number = _table(
    "number",
    Column("name", Exact(100), primary_key=True),
    Column("next", BigInteger, nullable=False),
)
