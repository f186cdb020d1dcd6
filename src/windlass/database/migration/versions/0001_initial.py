"""All tables, as the first release has them. It never changes: a new table is a new migration."""

from __future__ import annotations

from alembic import op
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    Index,
    Integer,
    SmallInteger,
    String,
    Table,
    text,
)
from sqlalchemy.schema import CreateIndex, SchemaItem

from windlass.database.column import OPTIONS, Exact, Json, Long, Number, partial_index
from windlass.database.server import server_of

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

BUCKETS = 256
ZERO = text("0")

# The ring's name is random and made by the database: the printed SQL may run on more than one.
RING_NAME = {
    "sqlite": "lower(hex(randomblob(8)))",
    "postgresql": "substr(md5(cast(random() as text) || clock_timestamp()), 1, 16)",
    "mysql": "lower(hex(random_bytes(8)))",
    "mariadb": "substr(md5(uuid()), 1, 16)",
}

READABLE_TIME = {
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f', {0} / 1000000.0, 'unixepoch')",
    "postgresql": "to_timestamp({0} / 1000000.0)",
    "mysql": "from_unixtime({0} / 1000000)",
    "mariadb": "from_unixtime({0} / 1000000)",
}

TABLES: dict[str, tuple[SchemaItem, ...]] = {
    "task": (
        Column("id", Number, primary_key=True, autoincrement=False),
        Column("kind", Exact(100), nullable=False),
        Column("task_key", Exact(255)),
        Column("bucket", SmallInteger, nullable=False),
        Column("status", SmallInteger, nullable=False),
        Column("priority", SmallInteger, nullable=False),
        Column("due_at", BigInteger),
        Column("batch", BigInteger),
        Column("worker", BigInteger),
        Column("attempt", Integer, nullable=False, server_default=ZERO),
        Column("lost", SmallInteger, nullable=False, server_default=ZERO),
        Column("lost_in_a_row", SmallInteger, nullable=False, server_default=ZERO),
        Column("last_status", SmallInteger),
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
        partial_index("windlass_task_undue", "status", "kind", "id", where="due_at is null"),
        partial_index("windlass_task_flow", "flow_id", "node", where="flow_id is not null"),
    ),
    "slot": (
        Column("dep_id", BigInteger, primary_key=True, autoincrement=False),
        Column("task_id", BigInteger, primary_key=True, autoincrement=False),
        Column("rule", SmallInteger, nullable=False),
        Index("windlass_slot_task", "task_id"),
    ),
    "flow_template": (
        Column("name", Exact(100), primary_key=True),
        Column("version", Integer, primary_key=True, autoincrement=False),
        Column("spec", Json, nullable=False),
        Column("created_at", BigInteger, nullable=False),
    ),
    "external": (
        Column("task_id", Number, primary_key=True, autoincrement=False),
        Column("submission", Integer, primary_key=True, autoincrement=False),
        Column("kind", Exact(100), nullable=False),
        Column("handle", Exact(255)),
        Column("secret", Exact(64), nullable=False),
        Column("past", SmallInteger, nullable=False, server_default=ZERO),
        Column("tries", Integer, nullable=False, server_default=text("1")),
        Column("began_at", BigInteger, nullable=False),
        Column("polls", Integer, nullable=False, server_default=ZERO),
        Column("told", Json),
        Column("cancel_at", BigInteger),
        Index("windlass_external_handle", "handle"),
        partial_index(
            "windlass_external_cancel", "kind", "cancel_at", where="cancel_at is not null"
        ),
    ),
    "worker": (
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
    ),
    "failure": (
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
    ),
    "stat": (
        Column("minute", BigInteger, primary_key=True, autoincrement=False),
        Column("kind", Exact(100), primary_key=True),
        Column("worker", BigInteger, primary_key=True, autoincrement=False),
        Column("done", BigInteger, nullable=False),
        Column("failed", BigInteger, nullable=False),
        Column("retried", BigInteger, nullable=False),
        Column("milliseconds", BigInteger, nullable=False),
    ),
    "alert": (
        Column("id", Number, primary_key=True, autoincrement=False),
        Column("what", Exact(100), nullable=False),
        Column("kind", Exact(100)),
        Column("task_id", BigInteger),
        Column("raised_at", BigInteger, nullable=False),
        Column("text", Long, nullable=False),
        Index("windlass_alert_raised", "raised_at"),
    ),
    "acknowledgement": (
        Column("what", Exact(100), primary_key=True),
        Column("kind", Exact(100), primary_key=True),
        Column("who", String(255), nullable=False),
        Column("seen_at", BigInteger, nullable=False),
        Column("quiet_until", BigInteger),
    ),
    "switch": (
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
    ),
    "rate": (
        Column("kind", Exact(100), primary_key=True),
        Column("next_at", BigInteger, nullable=False),
        Column("per_second", Double, nullable=False),
    ),
    "tally": (
        Column("id", Number, primary_key=True, autoincrement=True),
        Column("kind", Exact(100), nullable=False),
        Column("delta", BigInteger, nullable=False),
        Index("windlass_tally_kind", "kind"),
    ),
    "control": (
        Column("name", Exact(255), primary_key=True),
        Column("partition_id", Exact(255), primary_key=True),
        Column("status", SmallInteger, nullable=False, server_default=text("9")),
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
    ),
    "control_run": (
        Column("id", Number, primary_key=True, autoincrement=True),
        Column("name", Exact(255), nullable=False),
        Column("partition_id", Exact(255), nullable=False),
        Column("status", SmallInteger, nullable=False),
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
    ),
    "bucket": (
        Column("bucket", SmallInteger, primary_key=True, autoincrement=False),
        Column("owner", BigInteger),
        Column("careful_to", BigInteger, nullable=False, server_default=ZERO),
    ),
    "offer": (
        Column("task_id", Number, primary_key=True, autoincrement=False),
        Column("kind", Exact(100), nullable=False),
        Column("due_at", BigInteger, nullable=False),
        Index("windlass_offer_due", "kind", "due_at"),
    ),
    "sweep": (
        Column("name", Exact(100), primary_key=True),
        Column("status", SmallInteger, nullable=False, server_default=ZERO),
        Column("round", BigInteger, nullable=False, server_default=ZERO),
        Column("ranges", Integer, nullable=False),
        Column("declared_ranges", Integer, nullable=False),
        Column("redo", BigInteger),
        Column("rows_estimate", BigInteger),
        Column("started_at", BigInteger),
        Column("ended_at", BigInteger),
        Column("due_at", BigInteger),
        Column("starter", BigInteger),
        Column("stopped_at", BigInteger),
        Column("source", Long),
        Column("error", Long),
    ),
    "range": (
        Column("id", Number, primary_key=True, autoincrement=False),
        Column("sweep", Exact(100), nullable=False),
        Column("round", BigInteger, nullable=False),
        Column("range_begin", Exact(1000)),
        Column("range_end", Exact(1000)),
        Column("breakpoint", Exact(1000)),
        Column("read_to", Exact(1000)),
        Column("status", SmallInteger, nullable=False, server_default=ZERO),
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
    ),
    "round": (
        Column("sweep", Exact(100), primary_key=True),
        Column("round", BigInteger, primary_key=True, autoincrement=False),
        Column("started_at", BigInteger, nullable=False),
        Column("ended_at", BigInteger, nullable=False),
        Column("done", BigInteger, nullable=False),
        Column("failed", BigInteger, nullable=False),
        Column("repeated", BigInteger, nullable=False),
        Column("ranges", Integer, nullable=False),
    ),
    "sweep_failure": (
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
    ),
    "visit": (
        Column("sweep", Exact(100), primary_key=True),
        Column("key_hash", Exact(32), primary_key=True),
        Column("item_key", Exact(1000), nullable=False),
        Column("visited_at", BigInteger, nullable=False),
        Column("status", SmallInteger, nullable=False),
        Column("error", Long),
        Index("windlass_visit_visited", "visited_at"),
    ),
    "stock": (
        Column("sku", Exact(255), primary_key=True),
        Column("available", BigInteger, nullable=False, server_default=ZERO),
        Column("received", BigInteger, nullable=False, server_default=ZERO),
        Column("deducted", BigInteger, nullable=False, server_default=ZERO),
        Column("returned", BigInteger, nullable=False, server_default=ZERO),
        CheckConstraint("available >= 0", name="windlass_stock_available"),
        CheckConstraint("returned >= 0 and returned <= deducted", name="windlass_stock_returned"),
        CheckConstraint(
            "received = available + deducted - returned", name="windlass_stock_balance"
        ),
    ),
    "stock_receipt": (
        Column("movement", Exact(10), primary_key=True),
        Column("id", Exact(255), primary_key=True),
        Column("body", Json, nullable=False),
        Column("refusal", Json),
        Column("created_at", BigInteger, nullable=False),
    ),
    "deduction": (
        Column("id", Exact(255), primary_key=True),
        Column("status", SmallInteger, nullable=False),
        Column("body", Json),
        Column("refusal", Json),
        Column("hold_until", BigInteger),
        Column("confirmed_at", BigInteger),
        Column("created_at", BigInteger, nullable=False),
        Index("windlass_deduction_created", "created_at", "id"),
    ),
    "deduction_line": (
        Column("deduction_id", Exact(255), primary_key=True),
        Column("sku", Exact(255), primary_key=True),
        Column("quantity", BigInteger, nullable=False),
        Column("returned", BigInteger, nullable=False, server_default=ZERO),
        CheckConstraint("quantity > 0", name="windlass_deduction_line_quantity"),
        CheckConstraint(
            "returned >= 0 and returned <= quantity", name="windlass_deduction_line_returned"
        ),
    ),
    "stock_return": (
        Column("deduction_id", Exact(255), primary_key=True),
        Column("return_id", Exact(255), primary_key=True),
        Column("body", Json, nullable=False),
        Column("refusal", Json),
        Column("created_at", BigInteger, nullable=False),
        Index("windlass_stock_return_created", "created_at", "deduction_id", "return_id"),
    ),
    "return_line": (
        Column("deduction_id", Exact(255), primary_key=True),
        Column("return_id", Exact(255), primary_key=True),
        Column("sku", Exact(255), primary_key=True),
        Column("quantity", BigInteger, nullable=False),
        CheckConstraint("quantity > 0", name="windlass_return_line_quantity"),
    ),
    "stock_entry": (
        Column("id", Number, primary_key=True, autoincrement=True),
        Column("sku", Exact(255), nullable=False),
        Column("quantity", BigInteger, nullable=False),
        Column("movement", Exact(10), nullable=False),
        Column("reference", Exact(255), nullable=False),
        Column("return_id", Exact(255)),
        Column("created_at", BigInteger, nullable=False),
        Index("windlass_stock_entry_sku", "sku", "id"),
        CheckConstraint("quantity <> 0", name="windlass_stock_entry_quantity"),
    ),
    "audit": (
        Column("id", Number, primary_key=True, autoincrement=False),
        Column("acted_at", BigInteger, nullable=False),
        Column("who", String(255), nullable=False),
        Column("via", Exact(20), nullable=False),
        Column("address", String(100)),
        Column("action", Exact(100), nullable=False),
        Column("about", Exact(300)),
        Column("detail", Json),
        Column("ok", SmallInteger),
        Column("outcome", Long),
        Index("windlass_audit_acted", "acted_at", "id"),
    ),
    "shard": (
        Column("id", SmallInteger, primary_key=True, autoincrement=False),
        Column("place", SmallInteger, nullable=False, server_default=ZERO),
        Column("ring", Exact(32), nullable=False),
        Column("members", String(255), nullable=False),
        Column("draining", SmallInteger, nullable=False, server_default=ZERO),
        Column("number", BigInteger, nullable=False, server_default=ZERO),
        Column("roster", Json),
        Column("moving", Json),
    ),
    "number": (
        Column("name", Exact(100), primary_key=True),
        Column("next", BigInteger, nullable=False),
    ),
}


def upgrade() -> None:
    tables = {name: create_table(name, parts) for name, parts in TABLES.items()}
    server = server_of(op.get_context().dialect)
    op.bulk_insert(tables["bucket"], [{"bucket": number} for number in range(BUCKETS)])
    op.execute(
        f"insert into windlass_shard (id, ring, members) select 1, {RING_NAME[server]}, 'database'"
    )
    op.execute("insert into windlass_number (name, next) values ('id', 1)")
    if server == "postgresql":
        op.execute("create sequence windlass_number_id as bigint start 1 increment 64 cache 1")
    create_readable_view(READABLE_TIME[server])


def create_table(name: str, parts: tuple[SchemaItem, ...]) -> Table:
    """Create a table, then its indexes in their order: Alembic would create them in any."""
    columns = [part for part in parts if not isinstance(part, Index)]
    table = op.create_table(f"windlass_{name}", *columns, **OPTIONS)
    for part in parts:
        if isinstance(part, Index):
            table.append_constraint(part)
            op.execute(CreateIndex(part))
    return table


def create_readable_view(shown: str) -> None:
    """The tasks for people in a SQL shell."""
    times = ", ".join(
        f"{shown.format(name)} as {name}"
        for name in ("due_at", "created_at", "started_at", "finished_at")
    )
    op.execute(
        "create view windlass_task_readable as select id, kind, task_key, "
        "case status when 0 then 'waiting' when 1 then 'running' when 2 then 'succeeded' "
        "when 3 then 'failed' when 4 then 'blocked' when 5 then 'external' "
        "when 6 then 'cancelled' end as status, "
        f"priority, {times}, attempt, lost, worker, batch, bucket, payload, result, remark "
        "from windlass_task"
    )
