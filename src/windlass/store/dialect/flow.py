"""What flows say differently to each database: lists of rows go in as one document."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import TextClause, text

from windlass.store.dialect.base import COLUMNS, encode

NODE = """id, kind, task_key, bucket, status, priority, due_at, flow_id, node, open_slots,
    payload, created_at"""

EDGES = """
select s.dep_id, s.task_id, s.rule, t.status, t.open_slots, t.flow_id, t.bucket
from {slots} join windlass_task as t on t.id = s.task_id
where {listed}
"""

# All edges below: what can never run takes those with it that wait for it.
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


@dataclass(frozen=True)
class FlowStatements:
    """The statements of one database."""

    insert_nodes: TextClause
    insert_slots: TextClause
    edges: TextClause
    below: TextClause
    # Moves rows that wait for others, as long as they do.
    move: TextClause
    # Whole rows, as a claim has them.
    rows: TextClause
    results: TextClause
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
                remark = c.remark,
                open_slots = case when c.filled is null then 0 else t.open_slots - c.filled end
            from json_to_recordset(cast(:rows as json)) as c (
                id bigint, was smallint, status smallint, due_at bigint, filled integer,
                finished_at bigint, remark text)
            where t.id = any(array(select unnest(cast(:ids as bigint[]))))
              and t.id = c.id and +t.status = c.was"""),
        rows=text(f"select {COLUMNS} from windlass_task where id {listed}"),
        results=text(f"select id, result from windlass_task where id {listed}"),
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
                open_slots = case when c.value ->> 'filled' is null then 0
                    else t.open_slots - (c.value ->> 'filled') end
            from json_each(:rows) as c
            where t.id = (c.value ->> 'id') and +t.status = (c.value ->> 'was')"""),
        rows=text(f"select {COLUMNS} from windlass_task where id {listed}"),
        results=text(f"select id, result from windlass_task where id {listed}"),
    )


def _mysql() -> FlowStatements:
    # Row by row by its key, whatever the optimiser thinks of a table that it takes for small.
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
                finished_at bigint path '$.finished_at', remark text path '$.remark')) as c
            straight_join windlass_task as t force index (primary) on t.id = c.id
            set t.open_slots = if(c.filled is null, 0, t.open_slots - c.filled),
                t.due_at = c.due_at, t.finished_at = c.finished_at, t.remark = c.remark,
                t.status = c.status
            where t.status = c.was"""),
        rows=text(f"select {columns} from {by_id}"),
        results=text(f"select t.id, t.result from {by_id}"),
    )


STATEMENTS = {"postgresql": _postgresql(), "sqlite": _sqlite(), "mysql": _mysql()}
