"""The tables of the engine: task, worker, failure, stat, alert, number."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from windlass.database.schema import Exact, Json, Long, Number

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}

READABLE = {
    "postgresql": "to_timestamp({0} / 1000000.0)",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f', {0} / 1000000.0, 'unixepoch')",
    "mysql": "from_unixtime({0} / 1000000)",
    "mariadb": "from_unixtime({0} / 1000000)",
}


def upgrade() -> None:
    task()
    worker()
    failure()
    stat()
    alert()
    number()
    readable()


def task() -> None:
    op.create_table(
        "windlass_task",
        sa.Column("id", Number, primary_key=True, autoincrement=False),
        sa.Column("kind", Exact(100), nullable=False),
        sa.Column("task_key", Exact(255)),
        sa.Column("bucket", sa.SmallInteger, nullable=False),
        sa.Column("status", sa.SmallInteger, nullable=False),
        sa.Column("priority", sa.SmallInteger, nullable=False),
        sa.Column("due_at", sa.BigInteger),
        sa.Column("batch", sa.BigInteger),
        sa.Column("worker", sa.BigInteger),
        sa.Column("attempt", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("lost", sa.SmallInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("last_status", sa.SmallInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("finished_at", sa.BigInteger),
        sa.Column("prune_at", sa.BigInteger),
        sa.Column("flow_id", sa.BigInteger),
        sa.Column("node", Exact(255)),
        sa.Column("open_slots", sa.Integer),
        sa.Column("payload", Json, nullable=False),
        sa.Column("result", Json),
        sa.Column("remark", Long),
        **OPTIONS,
    )
    partial_index("windlass_task_due", ["status", "kind", "priority", "due_at", "bucket"], "due_at")
    partial_index("windlass_task_key", ["kind", "task_key"], "task_key", unique=True)
    partial_index("windlass_task_prune", ["prune_at"], "prune_at")


def partial_index(name: str, columns: list[str], given: str, *, unique: bool = False) -> None:
    only = sa.text(f"{given} is not null")
    op.create_index(
        name, "windlass_task", columns, unique=unique, postgresql_where=only, sqlite_where=only
    )


def worker() -> None:
    op.create_table(
        "windlass_worker",
        sa.Column("id", Number, primary_key=True, autoincrement=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("token", sa.BigInteger),
        sa.Column("lease_until", sa.BigInteger, nullable=False),
        sa.Column("idle", sa.SmallInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("joined_at", sa.BigInteger, nullable=False),
        sa.Column("left_at", sa.BigInteger),
        sa.Column("left_why", sa.String(255)),
        sa.Column("kinds", Json, nullable=False),
        **OPTIONS,
    )
    op.create_index("windlass_worker_left", "windlass_worker", ["left_at"])


def failure() -> None:
    op.create_table(
        "windlass_failure",
        sa.Column("id", Number, primary_key=True, autoincrement=False),
        sa.Column("task_id", sa.BigInteger, nullable=False),
        sa.Column("kind", Exact(100), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("worker", sa.BigInteger),
        sa.Column("failed_at", sa.BigInteger, nullable=False),
        sa.Column("error", Long, nullable=False),
        sa.Column("trace", Long, nullable=False),
        **OPTIONS,
    )
    op.create_index("windlass_failure_kind", "windlass_failure", ["kind", "id"])
    op.create_index("windlass_failure_task", "windlass_failure", ["task_id"])


def stat() -> None:
    op.create_table(
        "windlass_stat",
        sa.Column("minute", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", Exact(100), primary_key=True),
        sa.Column("worker", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("done", sa.BigInteger, nullable=False),
        sa.Column("failed", sa.BigInteger, nullable=False),
        sa.Column("retried", sa.BigInteger, nullable=False),
        sa.Column("milliseconds", sa.BigInteger, nullable=False),
        **OPTIONS,
    )


def alert() -> None:
    op.create_table(
        "windlass_alert",
        sa.Column("id", Number, primary_key=True, autoincrement=False),
        sa.Column("what", Exact(100), nullable=False),
        sa.Column("kind", Exact(100)),
        sa.Column("task_id", sa.BigInteger),
        sa.Column("raised_at", sa.BigInteger, nullable=False),
        sa.Column("text", Long, nullable=False),
        **OPTIONS,
    )
    op.create_index("windlass_alert_raised", "windlass_alert", ["raised_at"])


def number() -> None:
    op.create_table(
        "windlass_number",
        sa.Column("name", Exact(100), primary_key=True),
        sa.Column("next", sa.BigInteger, nullable=False),
        **OPTIONS,
    )
    op.execute("insert into windlass_number (name, next) values ('id', 1)")
    if op.get_context().dialect.name == "postgresql":
        op.execute("create sequence windlass_number_id as bigint start 1 increment 64 cache 1")


def readable() -> None:
    """The view for people in a SQL shell."""
    shown = READABLE[op.get_context().dialect.name]
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
