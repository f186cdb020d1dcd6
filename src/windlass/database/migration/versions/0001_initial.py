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
from sqlalchemy.schema import CreateIndex

from windlass.database.column import (
    OPTIONS,
    Exact,
    Json,
    Long,
    Number,
    Part,
    flat,
    key,
    optional,
    partial_index,
    required,
    server_of,
    zero,
)

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

BUCKETS = 256

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

TABLES: dict[str, tuple[Part, ...]] = {
    "task": (
        key(id=Number),
        required(kind=Exact(100)),
        optional(task_key=Exact(255)),
        required(bucket=SmallInteger, status=SmallInteger, priority=SmallInteger),
        optional(due_at=BigInteger, batch=BigInteger, worker=BigInteger),
        zero(attempt=Integer, lost=SmallInteger, lost_in_a_row=SmallInteger),
        optional(last_status=SmallInteger),
        required(created_at=BigInteger),
        optional(started_at=BigInteger, finished_at=BigInteger, prune_at=BigInteger),
        optional(flow_id=BigInteger, node=Exact(255), open_slots=Integer),
        required(payload=Json),
        optional(result=Json, remark=Long),
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
        key(dep_id=BigInteger, task_id=BigInteger),
        required(rule=SmallInteger),
        Index("windlass_slot_task", "task_id"),
    ),
    "flow_template": (
        key(name=Exact(100), version=Integer),
        required(spec=Json, created_at=BigInteger),
    ),
    "external": (
        key(task_id=Number, submission=Integer),
        required(kind=Exact(100)),
        optional(handle=Exact(255)),
        required(secret=Exact(64)),
        zero(past=SmallInteger),
        Column("tries", Integer, nullable=False, server_default=text("1")),
        required(began_at=BigInteger),
        zero(polls=Integer),
        optional(told=Json, cancel_at=BigInteger),
        Index("windlass_external_handle", "handle"),
        partial_index(
            "windlass_external_cancel", "kind", "cancel_at", where="cancel_at is not null"
        ),
    ),
    "worker": (
        key(id=Number),
        required(host=String(255), pid=Integer),
        optional(token=BigInteger),
        required(lease_until=BigInteger),
        zero(idle=SmallInteger),
        required(joined_at=BigInteger),
        optional(left_at=BigInteger, left_why=String(255)),
        required(kinds=Json),
        Index("windlass_worker_left", "left_at"),
    ),
    "failure": (
        key(id=Number),
        required(task_id=BigInteger, kind=Exact(100), attempt=Integer),
        optional(worker=BigInteger),
        required(failed_at=BigInteger, error=Long, trace=Long),
        Index("windlass_failure_kind", "kind", "id"),
        Index("windlass_failure_task", "task_id"),
    ),
    "stat": (
        key(minute=BigInteger, kind=Exact(100), worker=BigInteger),
        required(done=BigInteger, failed=BigInteger, retried=BigInteger, milliseconds=BigInteger),
    ),
    "alert": (
        key(id=Number),
        required(what=Exact(100)),
        optional(kind=Exact(100), task_id=BigInteger),
        required(raised_at=BigInteger, text=Long),
        Index("windlass_alert_raised", "raised_at"),
    ),
    "acknowledgement": (
        key(what=Exact(100), kind=Exact(100)),
        required(who=String(255), seen_at=BigInteger),
        optional(quiet_until=BigInteger),
    ),
    "switch": (
        key(kind=Exact(100)),
        zero(off=SmallInteger),
        optional(reason=Long, who=String(255), since=BigInteger, time_window=String(255)),
        optional(rate=String(50), concurrency=Integer),
        zero(breaker=SmallInteger, errors_in_a_row=Integer),
        optional(opened_at=BigInteger, probe_at=BigInteger, pause=BigInteger),
        optional(probe_worker=BigInteger),
    ),
    "rate": (
        key(kind=Exact(100)),
        required(next_at=BigInteger, per_second=Double),
    ),
    "tally": (
        Column("id", Number, primary_key=True, autoincrement=True),
        required(kind=Exact(100), delta=BigInteger),
        Index("windlass_tally_kind", "kind"),
    ),
    "control": (
        key(name=Exact(255), partition_id=Exact(255)),
        Column("status", SmallInteger, nullable=False, server_default=text("9")),
        optional(stat_date=String(10), step=Exact(255), steps=Json, first_time=BigInteger),
        optional(start_time=BigInteger, expire_time=BigInteger, end_time=BigInteger),
        optional(run_seconds=Double, error=Long, data=Json, batch=BigInteger),
        zero(tries=Integer),
        optional(who=String(255), progress_done=BigInteger, progress_total=BigInteger),
    ),
    "control_run": (
        Column("id", Number, primary_key=True, autoincrement=True),
        required(name=Exact(255), partition_id=Exact(255), status=SmallInteger),
        optional(batch=BigInteger, stat_date=String(10), step=Exact(255), steps=Json),
        optional(first_time=BigInteger, start_time=BigInteger, end_time=BigInteger),
        optional(run_seconds=Double, error=Long, data=Json),
        required(tries=Integer),
        optional(who=String(255)),
        Index("windlass_control_run_name", "name", "partition_id", "id"),
    ),
    "bucket": (
        key(bucket=SmallInteger),
        optional(owner=BigInteger),
        zero(careful_to=BigInteger),
    ),
    "offer": (
        key(task_id=Number),
        required(kind=Exact(100), due_at=BigInteger),
        Index("windlass_offer_due", "kind", "due_at"),
    ),
    "sweep": (
        key(name=Exact(100)),
        zero(status=SmallInteger, round=BigInteger),
        required(ranges=Integer, declared_ranges=Integer),
        optional(redo=BigInteger, rows_estimate=BigInteger, started_at=BigInteger),
        optional(ended_at=BigInteger, due_at=BigInteger, starter=BigInteger, stopped_at=BigInteger),
        optional(source=Long, error=Long),
    ),
    "range": (
        key(id=Number),
        required(sweep=Exact(100), round=BigInteger),
        optional(range_begin=Exact(1000), range_end=Exact(1000), breakpoint=Exact(1000)),
        optional(read_to=Exact(1000)),
        zero(status=SmallInteger),
        optional(batch=BigInteger, worker=BigInteger),
        zero(done=BigInteger, failed=BigInteger, repeated=BigInteger, rows_estimate=BigInteger),
        zero(per_second=Double, lost=SmallInteger),
        optional(lost_at=Exact(1000), again_to=Exact(1000)),
        zero(careful=SmallInteger),
        optional(saved_at=BigInteger),
        Index("windlass_range_round", "sweep", "round", "status"),
        Index("windlass_range_worker", "worker"),
        Index("windlass_range_free", "status", "careful", "batch"),
    ),
    "round": (
        key(sweep=Exact(100), round=BigInteger),
        required(started_at=BigInteger, ended_at=BigInteger, done=BigInteger, failed=BigInteger),
        required(repeated=BigInteger, ranges=Integer),
    ),
    "sweep_failure": (
        key(id=Number),
        required(sweep=Exact(100), key_hash=Exact(32), item_key=Exact(1000), round=BigInteger),
        required(failed_at=BigInteger, tries=Integer),
        optional(retry_at=BigInteger, batch=BigInteger, worker=BigInteger),
        required(error=Long),
        Index("windlass_sweep_failure_key", "sweep", "key_hash", unique=True),
        Index("windlass_sweep_failure_retry", "sweep", "retry_at"),
        partial_index("windlass_sweep_failure_worker", "worker", where="worker is not null"),
    ),
    "visit": (
        key(sweep=Exact(100), key_hash=Exact(32)),
        required(item_key=Exact(1000), visited_at=BigInteger, status=SmallInteger),
        optional(error=Long),
        Index("windlass_visit_visited", "visited_at"),
    ),
    "stock": (
        key(sku=Exact(255)),
        zero(available=BigInteger, received=BigInteger, deducted=BigInteger, returned=BigInteger),
        CheckConstraint("available >= 0", name="windlass_stock_available"),
        CheckConstraint("returned >= 0 and returned <= deducted", name="windlass_stock_returned"),
        CheckConstraint(
            "received = available + deducted - returned", name="windlass_stock_balance"
        ),
    ),
    "stock_receipt": (
        key(movement=Exact(10), id=Exact(255)),
        required(body=Json),
        optional(refusal=Json),
        required(created_at=BigInteger),
    ),
    "deduction": (
        key(id=Exact(255)),
        required(status=SmallInteger),
        optional(body=Json, refusal=Json, hold_until=BigInteger, confirmed_at=BigInteger),
        required(created_at=BigInteger),
        Index("windlass_deduction_created", "created_at", "id"),
    ),
    "deduction_line": (
        key(deduction_id=Exact(255), sku=Exact(255)),
        required(quantity=BigInteger),
        zero(returned=BigInteger),
        CheckConstraint("quantity > 0", name="windlass_deduction_line_quantity"),
        CheckConstraint(
            "returned >= 0 and returned <= quantity", name="windlass_deduction_line_returned"
        ),
    ),
    "stock_return": (
        key(deduction_id=Exact(255), return_id=Exact(255)),
        required(body=Json),
        optional(refusal=Json),
        required(created_at=BigInteger),
        Index("windlass_stock_return_created", "created_at", "deduction_id", "return_id"),
    ),
    "return_line": (
        key(deduction_id=Exact(255), return_id=Exact(255), sku=Exact(255)),
        required(quantity=BigInteger),
        CheckConstraint("quantity > 0", name="windlass_return_line_quantity"),
    ),
    "stock_entry": (
        Column("id", Number, primary_key=True, autoincrement=True),
        required(sku=Exact(255), quantity=BigInteger, movement=Exact(10), reference=Exact(255)),
        optional(return_id=Exact(255)),
        required(created_at=BigInteger),
        Index("windlass_stock_entry_sku", "sku", "id"),
        CheckConstraint("quantity <> 0", name="windlass_stock_entry_quantity"),
    ),
    "audit": (
        key(id=Number),
        required(acted_at=BigInteger, who=String(255), via=Exact(20)),
        optional(address=String(100)),
        required(action=Exact(100)),
        optional(about=Exact(300), detail=Json, ok=SmallInteger, outcome=Long),
        Index("windlass_audit_acted", "acted_at", "id"),
    ),
    "shard": (
        key(id=SmallInteger),
        zero(place=SmallInteger),
        required(ring=Exact(32), members=String(255)),
        zero(draining=SmallInteger, number=BigInteger),
        optional(roster=Json, moving=Json),
    ),
    "number": (
        key(name=Exact(100)),
        required(next=BigInteger),
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


def create_table(name: str, parts: tuple[Part, ...]) -> Table:
    """Create a table, then its indexes in their order: Alembic would create them in any."""
    columns = [part for part in flat(parts) if not isinstance(part, Index)]
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
