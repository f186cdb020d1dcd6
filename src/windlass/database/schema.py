"""The tables: one definition for SQLite, PostgreSQL, MySQL and MariaDB.

Times are whole microseconds since the epoch, UTC. `database/migration` builds the same tables; a
test proves that both agree.
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

from windlass.database.column import (
    OPTIONS,
    Exact,
    Json,
    Long,
    Number,
    StatusCode,
    partial_index,
)

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
    # Those of them since an attempt last ended by itself: they decide what is poison.
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
    # What the claim reads: the due rows of one kind and priority, oldest first, with their bucket.
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
    # What people look for: the rows of a kind that ended in some way or are blocked, newest first.
    partial_index("windlass_task_undue", "status", "kind", "id", where="due_at is null"),
    # The nodes of a run, which are rows like any other; the row of the run itself is one of them.
    partial_index("windlass_task_flow", "flow_id", "node", where="flow_id is not null"),
)

# The edges of flows: `task_id` waits for `dep_id`. Whether one is filled is told by the end of
# `dep_id`; how many are not is counted in `open_slots` of the row that waits.
slot = _table(
    "slot",
    Column("dep_id", BigInteger, primary_key=True, autoincrement=False),
    Column("task_id", BigInteger, primary_key=True, autoincrement=False),
    Column("rule", StatusCode, nullable=False),
    Index("windlass_slot_task", "task_id"),
)

# Flows that were drawn or loaded: the nodes and edges of each version.
flow_template = _table(
    "flow_template",
    Column("name", Exact(100), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("spec", Json, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

# What another system executes: each submission of a task, with the handle that the system gave it
# and the secret by which it may call back. Old ones stay, so that what is said of them is known.
external = _table(
    "external",
    Column("task_id", Number, primary_key=True, autoincrement=False),
    Column("submission", Integer, primary_key=True, autoincrement=False),
    Column("kind", Exact(100), nullable=False),
    Column("handle", Exact(255)),
    Column("secret", Exact(64), nullable=False),
    # 0: this is the one that counts; 1: it failed over there; 2: a retry by hand set it aside.
    Column("past", SmallInteger, nullable=False, server_default=ZERO),
    # Which try it is since the task was enqueued, or retried by hand.
    Column("tries", Integer, nullable=False, server_default=text("1")),
    # When it was submitted for the first time, whether or not the system answered.
    Column("began_at", BigInteger, nullable=False),
    # Polls in a row that brought nothing new; once it is to be cancelled, tries to do so.
    Column("polls", Integer, nullable=False, server_default=ZERO),
    # How it ended, if that was told before its handle was written down.
    Column("told", Json),
    # When the system is to be asked next to stop it.
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

# Who has seen the alerts of a sort and a kind: those up to then, or all until `quiet_until`.
acknowledgement = _table(
    "acknowledgement",
    Column("what", Exact(100), primary_key=True),
    Column("kind", Exact(100), primary_key=True),
    Column("who", String(255), nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Column("quiet_until", BigInteger),
)

# What an operator, or a breaker, has set for a kind. Null: as the kind declares it.
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

# When the next task of a kind with a rate may start: one clock for all workers together.
rate = _table(
    "rate",
    Column("kind", Exact(100), primary_key=True),
    Column("next_at", BigInteger, nullable=False),
    Column("per_second", Double, nullable=False),
)

# How many items rolling kinds have, as a sum of changes: whoever adds items appends to it, so
# nobody waits for anybody. Maintenance adds the changes of a kind together.
tally = _table(
    "tally",
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("kind", Exact(100), nullable=False),
    Column("delta", BigInteger, nullable=False),
    Index("windlass_tally_kind", "kind"),
)

# Named runs, one at a time for each name and partition, and how far they have come.
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

# The tries that ended, numbered in the order in which they did.
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

# Who owns which part of the task rows; those due before `careful_to` are claimed, not read.
bucket = _table(
    "bucket",
    Column("bucket", SmallInteger, primary_key=True, autoincrement=False),
    Column("owner", BigInteger),
    Column("careful_to", BigInteger, nullable=False, server_default=ZERO),
)

# Due rows that their owner gives up to whoever claims them; they have batch 0.
offer = _table(
    "offer",
    Column("task_id", Number, primary_key=True, autoincrement=False),
    Column("kind", Exact(100), nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Index("windlass_offer_due", "kind", "due_at"),
)

# Walks over large sources, and the round that each is in.
sweep = _table(
    "sweep",
    Column("name", Exact(100), primary_key=True),
    Column("status", StatusCode, nullable=False, server_default=ZERO),
    Column("round", BigInteger, nullable=False, server_default=ZERO),
    # Into how many ranges a round is cut, and how many the declaration says.
    Column("ranges", Integer, nullable=False),
    Column("declared_ranges", Integer, nullable=False),
    Column("redo", BigInteger),
    Column("rows_estimate", BigInteger),
    Column("started_at", BigInteger),
    Column("ended_at", BigInteger),
    # When the next round begins; null: when somebody starts it.
    Column("due_at", BigInteger),
    # Who cuts the source into ranges now.
    Column("starter", BigInteger),
    Column("stopped_at", BigInteger),
    Column("source", Long),
    Column("error", Long),
)

# The parts of a round. Keys are JSON texts, compared for equality only; null is an open end.
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

# When single keys of sweeps were visited last.
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

# How much there is of each SKU. The checks are the second line: statements have their own guards.
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

# Restocks and adjustments under the ids of their callers, with what was answered.
stock_receipt = _table(
    "stock_receipt",
    Column("movement", Exact(10), primary_key=True),
    Column("id", Exact(255), primary_key=True),
    Column("body", Json, nullable=False),
    Column("refusal", Json),
    Column("created_at", BigInteger, nullable=False),
)

# Deductions under the ids of their callers; without a body, the tombstone of one that never came.
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

# Returns under the ids of their callers, with what was answered.
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

# Every change of what is available, only ever appended: all of them together are the balances.
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

# What operators did: who, when, what, to which row, and what came of it.
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
    # Null while it is under way, or if whoever did it died in the middle of it.
    Column("ok", SmallInteger),
    Column("outcome", Long),
    Index("windlass_audit_acted", "acted_at", "id"),
)

# What this database is among several: one row.
shard = _table(
    "shard",
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    # Its place among the shards, which its numbers begin with.
    Column("place", SmallInteger, nullable=False, server_default=ZERO),
    # The name of its ring where members are kept elsewhere, and what they are kept in.
    Column("ring", Exact(32), nullable=False),
    Column("members", String(255), nullable=False),
    # Whether it takes no new rows.
    Column("draining", SmallInteger, nullable=False, server_default=ZERO),
    # What all shards know of each other, and its number; null in a database that is alone.
    Column("number", BigInteger, nullable=False, server_default=ZERO),
    Column("roster", Json),
    # The rows that are on their way to another shard.
    Column("moving", Json),
)

# Numbers for rows, batches and workers, taken in blocks. PostgreSQL has a sequence of that name.
number = _table(
    "number",
    Column("name", Exact(100), primary_key=True),
    Column("next", BigInteger, nullable=False),
)
