"""The tables: one definition for SQLite, PostgreSQL, MySQL and MariaDB.

Times are whole microseconds since the epoch, UTC. `database/migration` builds the same tables, and
a test compares both.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    Index,
    Integer,
    SmallInteger,
    String,
    text,
)

from windlass.database.column import (
    Exact,
    Json,
    Long,
    Number,
    StatusCode,
    key,
    optional,
    partial_index,
    required,
    zero,
)
from windlass.database.schema.base import metadata as metadata
from windlass.database.schema.base import table
from windlass.database.schema.broker import inbox as inbox
from windlass.database.schema.broker import message as message
from windlass.database.schema.broker import outbox as outbox
from windlass.database.schema.broker import queue as queue
from windlass.database.schema.hot import hot_allotment as hot_allotment
from windlass.database.schema.hot import hot_batch as hot_batch
from windlass.database.schema.hot import hot_lane as hot_lane
from windlass.database.schema.hot import hot_record as hot_record
from windlass.database.schema.hot import hot_synced as hot_synced

task = table(
    "task",
    key(id=Number),
    required(kind=Exact(100)),
    optional(task_key=Exact(255)),
    required(bucket=SmallInteger, status=StatusCode, priority=SmallInteger),
    optional(due_at=BigInteger, batch=BigInteger, worker=BigInteger),
    zero(attempt=Integer, lost=SmallInteger),
    # Lost runs since a run last ended normally: they decide whether the task is poison.
    zero(lost_in_a_row=SmallInteger),
    optional(last_status=StatusCode),
    required(created_at=BigInteger),
    optional(started_at=BigInteger, finished_at=BigInteger, prune_at=BigInteger),
    optional(flow_id=BigInteger, node=Exact(255), open_slots=Integer),
    required(payload=Json),
    optional(result=Json, remark=Long),
    # Its lane, and its place there: the number of the lane, and whether the row holds it.
    optional(lane=Exact(255), lane_place=BigInteger),
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
    # The rows of each lane that have not ended, in the order in which they run.
    partial_index(
        "windlass_task_lane",
        "kind",
        "status",
        "lane_place",
        "due_at",
        "id",
        where="lane_place is not null and due_at is not null",
    ),
)

# Ids of rows that were deleted lately, many in one row, for a call that must know whether its first
# try counted. Null: every id from the first to the last may have been forgotten.
gone = table(
    "gone",
    Column("id", Number, primary_key=True, autoincrement=True),
    required(first_id=BigInteger, last_id=BigInteger, gone_at=BigInteger),
    optional(ids=Long),
    Index("windlass_gone_last", "last_id", "first_id"),
)

# The edges of flows: `task_id` waits for `dep_id`. The slot is filled when `dep_id` has ended; the
# waiting row counts its unfilled slots in `open_slots`.
slot = table(
    "slot",
    key(dep_id=BigInteger, task_id=BigInteger),
    required(rule=StatusCode),
    Index("windlass_slot_task", "task_id"),
)

# Flows drawn in the console or loaded: the nodes and edges of each version.
flow_template = table(
    "flow_template",
    key(name=Exact(100), version=Integer),
    required(spec=Json, created_at=BigInteger),
)

# Submissions of tasks to external systems, with the system's handle and the secret for its
# callback. Old submissions stay, so that late messages about them are recognised.
external = table(
    "external",
    key(task_id=Number, submission=Integer),
    required(kind=Exact(100)),
    optional(handle=Exact(255)),
    required(secret=Exact(64)),
    # 0: current; 1: it failed in the external system; 2: replaced by an operator's retry.
    zero(past=SmallInteger),
    # The number of the try since the task was enqueued or retried by an operator.
    Column("tries", Integer, nullable=False, server_default=text("1")),
    # When it was first submitted, even if the system did not answer.
    required(began_at=BigInteger),
    # Polls in a row without news; after a cancel request, tries to cancel it.
    zero(polls=Integer),
    # How it ended, if the system reported that before its handle was stored.
    optional(told=Json),
    # When to ask the system next to cancel it.
    optional(cancel_at=BigInteger),
    Index("windlass_external_handle", "handle"),
    partial_index("windlass_external_cancel", "kind", "cancel_at", where="cancel_at is not null"),
)

worker = table(
    "worker",
    key(id=Number),
    required(host=String(255), pid=Integer),
    optional(token=BigInteger),
    required(lease_until=BigInteger),
    zero(idle=SmallInteger),
    required(joined_at=BigInteger),
    optional(left_at=BigInteger, left_why=String(255)),
    required(kinds=Json),
    Index("windlass_worker_left", "left_at"),
)

failure = table(
    "failure",
    key(id=Number),
    required(task_id=BigInteger, kind=Exact(100), attempt=Integer),
    optional(worker=BigInteger),
    required(failed_at=BigInteger, error=Long, trace=Long),
    Index("windlass_failure_kind", "kind", "id"),
    Index("windlass_failure_task", "task_id"),
)

# What the runs of tasks logged, for kinds that keep it; `lines` has the records.
run_log = table(
    "run_log",
    key(id=Number),
    required(task_id=BigInteger, kind=Exact(100), attempt=Integer),
    optional(worker=BigInteger),
    required(ended_at=BigInteger, dropped=Integer, lines=Json),
    Index("windlass_run_log_kind", "kind", "id"),
    Index("windlass_run_log_task", "task_id"),
)

# How far running tasks are, as their handlers say; a row is deleted when its run ends.
progress = table(
    "progress",
    key(task_id=Number),
    required(attempt=Integer, done=BigInteger),
    optional(total=BigInteger, note=String(200)),
    required(saved_at=BigInteger),
)

stat = table(
    "stat",
    key(minute=BigInteger, kind=Exact(100), worker=BigInteger),
    required(done=BigInteger, failed=BigInteger, retried=BigInteger, milliseconds=BigInteger),
)

alert = table(
    "alert",
    key(id=Number),
    required(what=Exact(100)),
    optional(kind=Exact(100), task_id=BigInteger),
    required(raised_at=BigInteger, text=Long),
    Index("windlass_alert_raised", "raised_at"),
)

# What becomes of an alert: how often its cause was reported, and when it was gone. An open alert
# has its cause here, and each cause has one open alert.
trouble = table(
    "trouble",
    key(alert_id=Number),
    optional(cause=Exact(255)),
    zero(severity=SmallInteger),
    required(times=BigInteger, last_at=BigInteger, text=Long),
    optional(resolved_at=BigInteger, resolution=Long),
    # By channel: what was delivered last, and when.
    optional(told=Json),
    Index("windlass_trouble_cause", "cause", unique=True),
)

# What watchers know together, such as who looks next and what was counted already.
watch = table(
    "watch",
    key(name=Exact(100)),
    required(due_at=BigInteger),
    optional(state=Json),
)

# Who acknowledged the alerts of one sort and kind: up to `seen_at`, or all until `quiet_until`.
acknowledgement = table(
    "acknowledgement",
    key(what=Exact(100), kind=Exact(100)),
    required(who=String(255), seen_at=BigInteger),
    optional(quiet_until=BigInteger),
)

# Settings of a kind by an operator or a breaker. Null: as declared.
switch = table(
    "switch",
    key(kind=Exact(100)),
    zero(off=SmallInteger),
    optional(reason=Long, who=String(255), since=BigInteger, time_window=String(255)),
    optional(rate=String(50), concurrency=Integer),
    zero(breaker=SmallInteger, errors_in_a_row=Integer),
    optional(opened_at=BigInteger, probe_at=BigInteger, pause=BigInteger, probe_worker=BigInteger),
    optional(paused_until=BigInteger, schedule=Json),
)

# When the next task of a kind with a rate may start: one clock for all workers.
rate = table(
    "rate",
    key(kind=Exact(100)),
    required(next_at=BigInteger, per_second=Double),
)

# The limits of the fleet: a row to lock when permits are taken, and what the limits are lowered to
# now; null is as declared or set.
limit = table(
    "limit",
    key(name=Exact(100)),
    optional(rate_now=Double, concurrency_now=Integer),
)

# Downstreams that adapt: what is known of them, what workers saw since, and how it went.
adapt = table(
    "adapt",
    key(name=Exact(100)),
    required(since=BigInteger, state=Json, seen=Json, history=Json),
)

# How many runs of a downstream, or of a kind with total_concurrency, each worker may have. The row
# of a worker that has left does not count.
permit = table(
    "permit",
    key(name=Exact(100), worker=BigInteger),
    zero(held=Integer, wanted=Integer),
    optional(waits_since=BigInteger),
    required(seen_at=BigInteger),
)

# The number of items of rolling kinds, as a sum of changes. Each transaction appends its change, so
# none waits for another. Maintenance adds up the changes of a kind.
tally = table(
    "tally",
    Column("id", Number, primary_key=True, autoincrement=True),
    required(kind=Exact(100), delta=BigInteger),
    Index("windlass_tally_kind", "kind"),
)

# Control runs, one at a time for each name and partition, and their progress.
control = table(
    "control",
    key(name=Exact(255), partition_id=Exact(255)),
    Column("status", StatusCode, nullable=False, server_default=text("9")),
    optional(stat_date=String(10), step=Exact(255), steps=Json),
    optional(first_time=BigInteger, start_time=BigInteger),
    optional(expire_time=BigInteger, end_time=BigInteger, run_seconds=Double),
    optional(error=Long, data=Json, batch=BigInteger),
    zero(tries=Integer),
    optional(who=String(255), progress_done=BigInteger, progress_total=BigInteger),
)

# Ended tries of control runs, numbered in the order of their ends.
control_run = table(
    "control_run",
    Column("id", Number, primary_key=True, autoincrement=True),
    required(name=Exact(255), partition_id=Exact(255), status=StatusCode),
    optional(batch=BigInteger, stat_date=String(10), step=Exact(255), steps=Json),
    optional(first_time=BigInteger, start_time=BigInteger, end_time=BigInteger, run_seconds=Double),
    optional(error=Long, data=Json),
    required(tries=Integer),
    optional(who=String(255)),
    Index("windlass_control_run_name", "name", "partition_id", "id"),
)

# The owner of each bucket; rows due before `careful_to` are claimed, not read.
bucket = table(
    "bucket",
    key(bucket=SmallInteger),
    optional(owner=BigInteger),
    zero(careful_to=BigInteger),
)

# Due rows that their owner offers to all workers; they have batch 0.
offer = table(
    "offer",
    key(task_id=Number),
    required(kind=Exact(100), due_at=BigInteger),
    Index("windlass_offer_due", "kind", "due_at"),
)

# Sweeps, and the current round of each.
sweep = table(
    "sweep",
    key(name=Exact(100)),
    zero(status=StatusCode, round=BigInteger),
    # The number of ranges in a round, and the number in the declaration.
    required(ranges=Integer, declared_ranges=Integer),
    optional(redo=BigInteger, rows_estimate=BigInteger, started_at=BigInteger, ended_at=BigInteger),
    # When the next round begins; null: when an operator starts it.
    optional(due_at=BigInteger),
    # The worker that is splitting the source into ranges.
    optional(starter=BigInteger),
    optional(stopped_at=BigInteger, source=Long, error=Long),
)

# Runs of sweeps over sources given at their start. Each has a row in `sweep` under its name.
sweep_run = table(
    "sweep_run",
    key(name=Exact(100)),
    required(sweep=Exact(100), number=BigInteger),
    # What the source is, as JSON; and what names the run for who started it.
    required(source=Long),
    optional(run_key=Exact(255)),
    # Whether workers look at it: it runs, or failed items of it are retried.
    required(is_open=SmallInteger, started_at=BigInteger),
    optional(ended_at=BigInteger, cancelled_at=BigInteger),
    Index("windlass_sweep_run_number", "sweep", "number", unique=True),
    Index("windlass_sweep_run_key", "sweep", "run_key", unique=True),
    Index("windlass_sweep_run_open", "is_open", "sweep", "number"),
)

# The ranges of a round. Keys are JSON texts, compared for equality only; null is an open end.
range_ = table(
    "range",
    key(id=Number),
    required(sweep=Exact(100), round=BigInteger),
    optional(range_begin=Exact(1000), range_end=Exact(1000)),
    optional(breakpoint=Exact(1000), read_to=Exact(1000)),
    zero(status=StatusCode),
    optional(batch=BigInteger, worker=BigInteger),
    zero(done=BigInteger, failed=BigInteger, repeated=BigInteger, rows_estimate=BigInteger),
    zero(per_second=Double, lost=SmallInteger),
    optional(lost_at=Exact(1000), again_to=Exact(1000)),
    zero(careful=SmallInteger),
    optional(saved_at=BigInteger),
    Index("windlass_range_round", "sweep", "round", "status"),
    Index("windlass_range_worker", "worker"),
    Index("windlass_range_free", "status", "careful", "batch"),
)

# The rounds that ended.
round_ = table(
    "round",
    key(sweep=Exact(100), round=BigInteger),
    required(started_at=BigInteger, ended_at=BigInteger),
    required(done=BigInteger, failed=BigInteger, repeated=BigInteger, ranges=Integer),
)

# Failed items of sweeps, each once; while an item is retried it has a batch.
sweep_failure = table(
    "sweep_failure",
    key(id=Number),
    required(sweep=Exact(100), key_hash=Exact(32), item_key=Exact(1000), round=BigInteger),
    required(failed_at=BigInteger, tries=Integer),
    optional(retry_at=BigInteger, batch=BigInteger, worker=BigInteger),
    required(error=Long),
    Index("windlass_sweep_failure_key", "sweep", "key_hash", unique=True),
    Index("windlass_sweep_failure_retry", "sweep", "retry_at"),
    partial_index("windlass_sweep_failure_worker", "worker", where="worker is not null"),
)

# The last visit of single keys of sweeps.
visit = table(
    "visit",
    key(sweep=Exact(100), key_hash=Exact(32)),
    required(item_key=Exact(1000), visited_at=BigInteger, status=StatusCode),
    optional(error=Long),
    Index("windlass_visit_visited", "visited_at"),
)

# Visits of single keys of sweeps that are asked for, or that run: then they have a batch. A worker
# that runs one is named; a caller that runs one holds it until a moment.
visit_request = table(
    "visit_request",
    key(sweep=Exact(100), key_hash=Exact(32)),
    required(item_key=Exact(1000), asked_at=BigInteger),
    optional(fresh=BigInteger, batch=BigInteger, worker=BigInteger, held_until=BigInteger),
    zero(lost=SmallInteger),
    Index("windlass_visit_request_asked", "sweep", "asked_at"),
    partial_index("windlass_visit_request_worker", "worker", where="worker is not null"),
)

# Keys that rounds of sweeps did of late, for visits that ask how fresh they are.
sweep_done = table(
    "sweep_done",
    key(sweep=Exact(100), key_hash=Exact(32)),
    required(done_at=BigInteger),
    Index("windlass_sweep_done_at", "sweep", "done_at"),
)

# The longest `fresh` that visits of a sweep ask for, and when one asked last.
sweep_fresh = table(
    "sweep_fresh",
    key(sweep=Exact(100)),
    required(fresh=BigInteger, asked_at=BigInteger),
)

# Rows whose runs met an overload: since when, when last, and how often.
overload = table(
    "overload",
    key(task_id=Number),
    required(kind=Exact(100), since=BigInteger, last_at=BigInteger, times=BigInteger),
    Index("windlass_overload_kind", "kind", "since"),
)

# The stock of each SKU. The checks are a second guard: the statements have their own.
stock = table(
    "stock",
    key(sku=Exact(255)),
    zero(available=BigInteger, received=BigInteger, deducted=BigInteger, returned=BigInteger),
    CheckConstraint("available >= 0", name="windlass_stock_available"),
    CheckConstraint("returned >= 0 and returned <= deducted", name="windlass_stock_returned"),
    CheckConstraint("received = available + deducted - returned", name="windlass_stock_balance"),
)

# Restocks and adjustments by the callers' ids, with the answers.
stock_receipt = table(
    "stock_receipt",
    key(movement=Exact(10), id=Exact(255)),
    required(body=Json),
    optional(refusal=Json),
    required(created_at=BigInteger),
)

# Deductions by the callers' ids; a row without a body marks a deduction that was voided first.
deduction = table(
    "deduction",
    key(id=Exact(255)),
    required(status=StatusCode),
    optional(body=Json, refusal=Json, hold_until=BigInteger, confirmed_at=BigInteger),
    required(created_at=BigInteger),
    Index("windlass_deduction_created", "created_at", "id"),
)

deduction_line = table(
    "deduction_line",
    key(deduction_id=Exact(255), sku=Exact(255)),
    required(quantity=BigInteger),
    zero(returned=BigInteger),
    CheckConstraint("quantity > 0", name="windlass_deduction_line_quantity"),
    CheckConstraint(
        "returned >= 0 and returned <= quantity", name="windlass_deduction_line_returned"
    ),
)

# Returns by the callers' ids, with the answers.
stock_return = table(
    "stock_return",
    key(deduction_id=Exact(255), return_id=Exact(255)),
    required(body=Json),
    optional(refusal=Json),
    required(created_at=BigInteger),
    Index("windlass_stock_return_created", "created_at", "deduction_id", "return_id"),
)

return_line = table(
    "return_line",
    key(deduction_id=Exact(255), return_id=Exact(255), sku=Exact(255)),
    required(quantity=BigInteger),
    CheckConstraint("quantity > 0", name="windlass_return_line_quantity"),
)

# Every change of available stock, append-only: the sum of the changes is the balance.
stock_entry = table(
    "stock_entry",
    Column("id", Number, primary_key=True, autoincrement=True),
    required(sku=Exact(255), quantity=BigInteger, movement=Exact(10), reference=Exact(255)),
    optional(return_id=Exact(255)),
    required(created_at=BigInteger),
    Index("windlass_stock_entry_sku", "sku", "id"),
    CheckConstraint("quantity <> 0", name="windlass_stock_entry_quantity"),
)

# Actions of operators: who, when, what, on which row, and the outcome.
audit = table(
    "audit",
    key(id=Number),
    required(acted_at=BigInteger, who=String(255), via=Exact(20)),
    optional(address=String(100)),
    required(action=Exact(100)),
    optional(about=Exact(300), detail=Json),
    # Null while it is under way, or if its process died meanwhile.
    optional(ok=SmallInteger),
    optional(outcome=Long),
    Index("windlass_audit_acted", "acted_at", "id"),
)

# Access tokens by name. The hash, keyed with the salt, is all that is known of a token itself.
token = table(
    "token",
    key(name=Exact(100)),
    required(prefix=Exact(20), role=Exact(20), salt=Exact(64), hash=Exact(64)),
    required(created_at=BigInteger, created_by=String(255)),
    optional(expires_at=BigInteger, last_used_at=BigInteger),
    optional(revoked_at=BigInteger, revoked_by=String(255)),
)

# Requests that were sent with an Idempotency-Key: the hashes of key and request, and the answer.
idempotency = table(
    "idempotency",
    key(id=Exact(64)),
    required(content=Exact(64)),
    optional(answer=Long),
    required(forget_at=BigInteger),
    Index("windlass_idempotency_forget", "forget_at"),
)

# This database among the shards: one row.
shard = table(
    "shard",
    key(id=SmallInteger),
    # Its place among the shards: the high bits of its numbers.
    zero(place=SmallInteger),
    # The name of its ring, and where the ring's members are stored.
    required(ring=Exact(32), members=String(255)),
    # Whether it takes no new rows.
    zero(draining=SmallInteger),
    # The roster and its number; null in a single database.
    zero(number=BigInteger),
    optional(roster=Json),
    # The rows that are moving to another shard.
    optional(moving=Json),
)

# Steps of the database's clock that workers noticed, oldest first.
clock_step = table(
    "clock_step",
    Column("id", Number, primary_key=True, autoincrement=True),
    required(noticed_at=BigInteger, microseconds=BigInteger),
)

# Numbers for rows, batches and workers, taken in blocks. PostgreSQL uses a sequence.
number = table(
    "number",
    key(name=Exact(100)),
    required(next=BigInteger),
)

# The migrations of these tables, and when each began and ended. Release 0.1.0 does not have it.
migration = table(
    "migration",
    key(version=Exact(32)),
    required(began_at=BigInteger),
    optional(ended_at=BigInteger),
)
