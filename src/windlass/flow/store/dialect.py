"""The statements of flows that differ by database; a list of rows is one JSON parameter."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import TextClause, text

from windlass.database.dialect import PerDialect
from windlass.database.dialect.base import COLUMNS, encode
from windlass.database.dialect.postgresql import often

NODE = """id, kind, task_key, bucket, status, priority, due_at, flow_id, node, open_slots,
    payload, created_at"""

EDGES = """
select s.dep_id, s.task_id, s.rule, t.status, t.open_slots, t.flow_id, t.bucket
from {slots} join windlass_task as t on t.id = s.task_id
where {listed}
"""

# All edges below: a node that can never run also decides the nodes that wait for it.
BELOW = """
with recursive below (dep_id, task_id, rule) as (
    select s.dep_id, s.task_id, s.rule from {slots} where {listed}
    union
    select s.dep_id, s.task_id, s.rule from windlass_slot as s
    join below on s.dep_id = below.task_id
)
select s.dep_id, s.task_id, s.rule, t.status, t.open_slots, t.flow_id, t.bucket
from below as s join windlass_task as t on t.id = s.task_id
"""

# Nodes that have succeeded fill one slot of each node that waits for them, and count as ended in
# their flow run. Rule 2 is any_success, 3 the slot of a nested flow; -1 is the flow run itself.
FILL = """
with c (child, rule, filled, moment) as {materialized} (
    select s.task_id, s.rule, count(*), :first + row_number() over (order by s.task_id)
    from windlass_slot as s where s.dep_id {listed} group by s.task_id, s.rule
    union all
    select {runs}
)
"""
FILLED = """
update windlass_task as t
set open_slots = case when c.rule = 2 then 0 else t.open_slots - c.filled end,
    due_at = case when c.rule < 0 or c.rule = 3 or (c.rule < 2 and t.open_slots > c.filled)
        then t.due_at else c.moment end,
    status = case when c.rule < 0 or c.rule = 3 or (c.rule < 2 and t.open_slots > c.filled)
        then t.status else 0 end
from c
where {among} t.id = c.child
  and +t.status = case when c.rule < 0 or c.rule = 3 then 1 else 4 end
returning status, open_slots, {columns}
"""
FILL_COLUMNS = COLUMNS.replace("payload", "case when due_at <= :first + :most then payload end")


@dataclass(frozen=True)
class FlowStatements:
    """The statements of one database."""

    insert_nodes: TextClause
    insert_slots: TextClause
    edges: TextClause
    below: TextClause
    # Writes new states of rows, if they still have the old status.
    move: TextClause
    # Whole rows, as a claim has them.
    rows: TextClause
    results: TextClause
    # Fills the slots of nodes that have succeeded, and returns the rows that become due; None where
    # an update returns no rows.
    fill: TextClause | None = None
    is_array: bool = False

    def listed(self, ids: Collection[int]) -> str:
        """A list of ids as a parameter of these statements."""
        if self.is_array:
            return "{" + ",".join(map(str, map(int, ids))) + "}"
        return encode(list(ids)).decode()


def _postgresql() -> FlowStatements:
    listed = "= any(cast(:ids as bigint[]))"
    slots = {"slots": "windlass_slot as s", "listed": f"s.dep_id {listed}"}
    return FlowStatements(
        insert_nodes=text(f"""
            insert into windlass_task ({NODE})
            select {NODE.replace("payload", "cast(payload as json)")}
            from json_to_recordset(cast(:rows as json)) as r (
                id bigint, kind text, task_key text, bucket smallint, status smallint,
                priority smallint, due_at bigint, flow_id bigint, node text, open_slots integer,
                payload text, created_at bigint)
            on conflict do nothing"""),
        insert_slots=text("""
            insert into windlass_slot (dep_id, task_id, rule)
            select dep_id, task_id, rule from unnest(cast(:deps as bigint[]),
                cast(:tasks as bigint[]), cast(:rules as smallint[])) as r (dep_id, task_id, rule)
            on conflict do nothing"""),
        edges=text(EDGES.format(**slots)),
        below=text(BELOW.format(**slots)),
        move=text("""
            update windlass_task as t
            set status = c.status, due_at = c.due_at, finished_at = c.finished_at,
                remark = c.remark, last_status = c.last_status,
                open_slots = case when c.filled is null then 0 else t.open_slots - c.filled end
            from json_to_recordset(cast(:rows as json)) as c (
                id bigint, was smallint, status smallint, due_at bigint, filled integer,
                finished_at bigint, remark text, last_status smallint)
            where t.id = any(array(select unnest(cast(:ids as bigint[]))))
              and t.id = c.id and +t.status = c.was"""),
        rows=text(f"select {COLUMNS} from windlass_task where id {listed}"),
        results=text(f"select id, result from windlass_task where id {listed}"),
        fill=often(
            FILL.format(
                materialized="materialized",
                listed=listed,
                runs="id, -1, filled, 0 from unnest(cast(:runs as bigint[]), "
                "cast(:counts as bigint[])) as r (id, filled)",
            )
            + ", moved as ("
            + FILLED.format(
                among="t.id = any(array(select child from c)) and", columns=FILL_COLUMNS
            )
            + ") select * from moved where status = 0 or (status = 1 and open_slots <= 0)"
        ),
        is_array=True,
    )


def _sqlite() -> FlowStatements:
    listed = "in (select value from json_each(:ids))"
    slots = {"slots": "windlass_slot as s", "listed": f"s.dep_id {listed}"}
    columns = [name.strip() for name in NODE.split(",")]
    return FlowStatements(
        insert_nodes=text(f"""
            insert into windlass_task ({NODE})
            select {", ".join(f"value ->> '{name}'" for name in columns)}
            from json_each(:rows) where true on conflict do nothing"""),
        insert_slots=text("""
            insert into windlass_slot (dep_id, task_id, rule)
            select value ->> 0, value ->> 1, value ->> 2 from json_each(:slots) where true
            on conflict do nothing"""),
        edges=text(EDGES.format(**slots)),
        below=text(BELOW.format(**slots)),
        move=text("""
            update windlass_task as t
            set status = c.value ->> 'status', due_at = c.value ->> 'due_at',
                finished_at = c.value ->> 'finished_at', remark = c.value ->> 'remark',
                last_status = c.value ->> 'last_status',
                open_slots = case when c.value ->> 'filled' is null then 0
                    else t.open_slots - (c.value ->> 'filled') end
            from json_each(:rows) as c
            where t.id = (c.value ->> 'id') and +t.status = (c.value ->> 'was')"""),
        rows=text(f"select {COLUMNS} from windlass_task where id {listed}"),
        results=text(f"select id, result from windlass_task where id {listed}"),
        fill=text(
            FILL.format(
                materialized="",
                listed=listed,
                runs="r.value, -1, n.value, 0 from json_each(:runs) as r "
                "join json_each(:counts) as n on n.key = r.key",
            )
            + FILLED.format(among="", columns=FILL_COLUMNS)
        ),
    )


def _mysql() -> FlowStatements:
    # Always by the primary key, even if the optimiser believes that the table is small.
    listed = "json_table(:ids, '$[*]' columns (id bigint path '$')) as listed"
    slots = f"{listed} straight_join windlass_slot as s on s.dep_id = listed.id"
    by_id = f"{listed} straight_join windlass_task as t force index (primary) on t.id = listed.id"
    columns = ", ".join(f"t.{name.strip()}" for name in COLUMNS.split(","))
    return FlowStatements(
        insert_nodes=text(f"""
            insert into windlass_task ({NODE})
            select {NODE} from json_table(:rows, '$[*]' columns (
                id bigint path '$.id', kind varchar(100) path '$.kind',
                task_key varchar(255) path '$.task_key', bucket smallint path '$.bucket',
                status smallint path '$.status', priority smallint path '$.priority',
                due_at bigint path '$.due_at', flow_id bigint path '$.flow_id',
                node varchar(255) path '$.node', open_slots int path '$.open_slots',
                payload mediumtext path '$.payload', created_at bigint path '$.created_at')) as r
            on duplicate key update id = windlass_task.id"""),
        insert_slots=text("""
            insert into windlass_slot (dep_id, task_id, rule)
            select dep_id, task_id, rule from json_table(:slots, '$[*]' columns (
                dep_id bigint path '$[0]', task_id bigint path '$[1]',
                rule smallint path '$[2]')) as r
            on duplicate key update rule = windlass_slot.rule"""),
        edges=text(EDGES.format(slots=slots, listed="true")),
        below=text(BELOW.format(slots=slots, listed="true")),
        move=text("""
            update json_table(:rows, '$[*]' columns (
                id bigint path '$.id', was smallint path '$.was', status smallint path '$.status',
                due_at bigint path '$.due_at', filled int path '$.filled',
                finished_at bigint path '$.finished_at', remark text path '$.remark',
                last_status smallint path '$.last_status')) as c
            straight_join windlass_task as t force index (primary) on t.id = c.id
            set t.open_slots = if(c.filled is null, 0, t.open_slots - c.filled),
                t.due_at = c.due_at, t.finished_at = c.finished_at, t.remark = c.remark,
                t.last_status = c.last_status, t.status = c.status
            where t.status = c.was"""),
        rows=text(f"select {columns} from {by_id}"),
        results=text(f"select t.id, t.result from {by_id}"),
    )


STATEMENTS = PerDialect(sqlite=_sqlite(), postgresql=_postgresql(), mysql=_mysql())
