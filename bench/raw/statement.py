"""What the raw loop says to each kind of database.

Table and indexes are those of Windlass (`windlass/database/schema.py`) under another name, and the
statements are its own (`windlass/database/dialect/`) less all that is there for safety.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Statements:
    """The statements for one kind of database."""

    create: Sequence[str]
    insert: str
    insert_many: str
    claim: str
    read: str
    delete: str
    update: str
    roll: str
    """Ends the run of a row that is due again later, as a rolling item is."""
    stamp: str | None = None
    """Written after `claim` in its transaction, where an update cannot return rows."""
    is_empty: str = "select 1 from raw_task where status < 2 limit 1"


POSTGRESQL = Statements(
    create=(
        """
        create table raw_task (
            id bigint primary key,
            kind varchar(100) collate "C" not null, task_key varchar(255) collate "C",
            bucket smallint not null, status smallint not null, priority smallint not null,
            due_at bigint, batch bigint, worker bigint, attempt integer not null default 0,
            lost smallint not null default 0, last_status smallint, created_at bigint not null,
            started_at bigint, finished_at bigint, prune_at bigint, flow_id bigint,
            node varchar(255) collate "C", open_slots integer, payload json not null, result json,
            remark text
        )
        """,
        """
        create index raw_task_due on raw_task (status, kind, priority, due_at, bucket)
        where due_at is not null
        """,
        "create unique index raw_task_key on raw_task (kind, task_key) where task_key is not null",
        "create index raw_task_prune on raw_task (prune_at) where prune_at is not null",
    ),
    insert="""
        insert into raw_task (id, kind, bucket, status, priority, due_at, payload, created_at)
        values (%(id)s, %(kind)s, %(bucket)s, 0, 0, %(due_at)s, %(payload)s, %(due_at)s)
    """,
    insert_many="""
        insert into raw_task (id, kind, bucket, status, priority, due_at, payload, created_at)
        select id, kind, bucket, 0, 0, due_at, cast(payload as json), due_at
        from json_to_recordset(cast(%(rows)s as json)) as given (
            id bigint, kind text, bucket smallint, due_at bigint, payload text)
    """,
    claim="""
        with picked as materialized (
            select id from raw_task
            where status = 0 and kind = 'noop' and priority = 0 and due_at <= %(now)s
                and batch is null
            order by due_at limit %(limit)s for update skip locked
        )
        update raw_task as t
        set status = 1, batch = %(batch)s, worker = 1, due_at = %(lease_end)s,
            attempt = t.attempt + 1, started_at = %(now)s
        where t.id = any(array(select id from picked))
        returning t.id, t.due_at, t.payload
    """,
    read="""
        select id, due_at, payload from raw_task
        where status = 0 and kind = 'noop' and priority = 0
            and due_at > %(after)s and due_at <= %(now)s
            and bucket between %(low)s and %(high)s and batch is null
        order by due_at limit %(limit)s
    """,
    delete="delete from raw_task where id = any(%(ids)s)",
    update="""
        update raw_task set status = 2, due_at = null, batch = null, finished_at = %(now)s
        where id = any(%(ids)s)
    """,
    roll="""
        update raw_task
        set status = 0, due_at = %(later)s, batch = null, finished_at = %(now)s, last_status = 2
        where id = any(%(ids)s)
    """,
)

MARIADB = Statements(
    create=(
        """
        create table raw_task (
            id bigint primary key,
            kind varchar(100) collate utf8mb4_nopad_bin not null,
            task_key varchar(255) collate utf8mb4_nopad_bin,
            bucket smallint not null, status smallint not null, priority smallint not null,
            due_at bigint, batch bigint, worker bigint, attempt integer not null default 0,
            lost smallint not null default 0, last_status smallint, created_at bigint not null,
            started_at bigint, finished_at bigint, prune_at bigint, flow_id bigint,
            node varchar(255) collate utf8mb4_nopad_bin, open_slots integer,
            payload mediumtext not null, result mediumtext, remark mediumtext,
            lane varchar(255) collate utf8mb4_nopad_bin, lane_place bigint,
            index raw_task_due (status, kind, priority, due_at, bucket),
            unique index raw_task_key (kind, task_key),
            index raw_task_prune (prune_at),
            index raw_task_undue (status, kind, id),
            index raw_task_flow (flow_id, node),
            index raw_task_lane (kind, status, lane_place, due_at, id)
        ) engine = InnoDB character set utf8mb4
        """,
    ),
    insert="""
        insert into raw_task (id, kind, bucket, status, priority, due_at, payload, created_at)
        values (%(id)s, %(kind)s, %(bucket)s, 0, 0, %(due_at)s, %(payload)s, %(due_at)s)
    """,
    insert_many="""
        insert into raw_task (id, kind, bucket, status, priority, due_at, payload, created_at)
        select id, kind, bucket, 0, 0, due_at, payload, due_at
        from json_table(%(rows)s, '$[*]' columns (
            id bigint path '$.id', kind varchar(100) path '$.kind',
            bucket smallint path '$.bucket', due_at bigint path '$.due_at',
            payload mediumtext path '$.payload')) as given
    """,
    claim="""
        select id, due_at, payload from raw_task force index (raw_task_due)
        where status = 0 and kind = 'noop' and priority = 0 and due_at <= %(now)s
            and batch is null
        order by due_at limit %(limit)s for update skip locked
    """,
    stamp="""
        update raw_task
        set status = 1, batch = %(batch)s, worker = 1, due_at = %(lease_end)s,
            attempt = attempt + 1, started_at = %(now)s
        where id in %(ids)s
    """,
    read="""
        select id, due_at, payload from raw_task force index (raw_task_due)
        where status = 0 and kind = 'noop' and priority = 0
            and due_at > %(after)s and due_at <= %(now)s
            and bucket between %(low)s and %(high)s and batch is null
        order by due_at limit %(limit)s
    """,
    delete="delete from raw_task where id in %(ids)s",
    update="""
        update raw_task set status = 2, due_at = null, batch = null, finished_at = %(now)s
        where id in %(ids)s
    """,
    roll="""
        update raw_task
        set status = 0, due_at = %(later)s, batch = null, finished_at = %(now)s, last_status = 2
        where id in %(ids)s
    """,
)

MYSQL = replace(
    MARIADB,
    create=[each.replace("utf8mb4_nopad_bin", "utf8mb4_0900_bin") for each in MARIADB.create],
)

SQLITE = Statements(
    create=(
        """
        create table raw_task (
            id integer primary key,
            kind varchar(100) not null, task_key varchar(255),
            bucket smallint not null, status smallint not null, priority smallint not null,
            due_at bigint, batch bigint, worker bigint, attempt integer not null default 0,
            lost smallint not null default 0, last_status smallint, created_at bigint not null,
            started_at bigint, finished_at bigint, prune_at bigint, flow_id bigint,
            node varchar(255), open_slots integer, payload text not null, result text, remark text
        )
        """,
        """
        create index raw_task_due on raw_task (status, kind, priority, due_at, bucket)
        where due_at is not null
        """,
        "create unique index raw_task_key on raw_task (kind, task_key) where task_key is not null",
        "create index raw_task_prune on raw_task (prune_at) where prune_at is not null",
    ),
    insert="""
        insert into raw_task (id, kind, bucket, status, priority, due_at, payload, created_at)
        values (:id, :kind, :bucket, 0, 0, :due_at, :payload, :due_at)
    """,
    insert_many="""
        insert into raw_task (id, kind, bucket, status, priority, due_at, payload, created_at)
        select value ->> 'id', value ->> 'kind', value ->> 'bucket', 0, 0, value ->> 'due_at',
            value ->> 'payload', value ->> 'due_at'
        from json_each(:rows)
    """,
    claim="""
        update raw_task
        set status = 1, batch = :batch, worker = 1, due_at = :lease_end,
            attempt = attempt + 1, started_at = :now
        where id in (
            select id from raw_task indexed by raw_task_due
            where status = 0 and kind = 'noop' and priority = 0 and due_at <= :now
                and batch is null
            order by due_at limit :limit
        )
        returning id, due_at, payload
    """,
    read="""
        select id, due_at, payload from raw_task indexed by raw_task_due
        where status = 0 and kind = 'noop' and priority = 0
            and due_at > :after and due_at <= :now
            and bucket between :low and :high and batch is null
        order by due_at limit :limit
    """,
    delete="delete from raw_task where id in (select value from json_each(:ids))",
    update="""
        update raw_task set status = 2, due_at = null, batch = null, finished_at = :now
        where id in (select value from json_each(:ids))
    """,
    roll="""
        update raw_task
        set status = 0, due_at = :later, batch = null, finished_at = :now, last_status = 2
        where id in (select value from json_each(:ids))
    """,
)
