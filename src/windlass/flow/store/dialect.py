"""The statements of flows, made from the words of each database; a list is one JSON parameter."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from sqlalchemy import TextClause, text

from windlass.database.dialect import PerDialect
from windlass.database.dialect.base import Dialect, document
from windlass.database.dialect.mysql import MySQL
from windlass.database.dialect.postgresql import PostgreSQL, often
from windlass.database.dialect.sqlite import SQLite
from windlass.database.dialect.statement import COLUMNS, LongText, columns_of
from windlass.value.task import NewNode


class NewSlot(msgspec.Struct, frozen=True, gc=False):
    """An edge that is about to be written."""

    dep_id: int
    task_id: int
    rule: int


NODE = columns_of(NewNode)
MOVE = dict.fromkeys(("id", "was", "status", "due_at", "filled", "finished_at", "last_status"), int)

EDGES = """
select s.dep_id, s.task_id, s.rule, t.status, t.open_slots, t.flow_id, t.bucket
from {slots} join windlass_task as t on t.id = s.task_id
"""

# All edges below: a node that can never run also decides the nodes that wait for it.
BELOW = f"""
with recursive below (dep_id, task_id, rule) as (
    select s.dep_id, s.task_id, s.rule from {{slots}}
    union
    select s.dep_id, s.task_id, s.rule from windlass_slot as s
    join below on s.dep_id = below.task_id
)
{EDGES.format(slots="below as s")}
"""

# The due time of a blocked node between two statements of a transaction.
MARKED = -1

# New states of rows, if they still have the old status.
MOVED = """
set {t}status = moves.status, {t}due_at = moves.due_at, {t}finished_at = moves.finished_at,
    {t}remark = moves.remark, {t}last_status = moves.last_status,
    {t}open_slots = case when moves.filled is null then 0 else t.open_slots - moves.filled end
"""

# Nodes that have succeeded fill one slot of each node that waits for them, and count as ended in
# their flow run. Rule 2 is any_success, 3 the slot of a nested flow; -1 is the flow run itself. A
# node that waits for failures (rules 4 and 5) may be skipped now: it is marked, and decided next.
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
set open_slots = case when c.rule = 2 then 0 when c.rule > 3 then t.open_slots
        else t.open_slots - c.filled end,
    due_at = case when c.rule > 3 then {marked}
        when c.rule < 0 or c.rule = 3 or (c.rule < 2 and t.open_slots > c.filled)
        then t.due_at else c.moment end,
    status = case when c.rule < 0 or c.rule >= 3 or (c.rule < 2 and t.open_slots > c.filled)
        then t.status else 0 end
from c
where {among} t.id = c.child
  and +t.status = case when c.rule < 0 or c.rule = 3 then 1 else 4 end
returning status, open_slots, {columns}
"""
FILL_COLUMNS = COLUMNS.replace("payload", "case when due_at <= :first + :most then payload end")


class FlowStatements:
    """The statements of one database, from its words for slots by `dep_id`, rows by id, and so on.

    `fill` is None where an update returns no rows.
    """

    def __init__(
        self,
        dialect: Dialect,
        *,
        slots: str,
        by_id: str,
        move: str,
        slot_there: str = "on conflict do nothing",
        fill: TextClause | None = None,
        is_array: bool = False,
    ) -> None:
        nodes, names = dialect.rows("nodes", **NODE), ", ".join(NODE)
        values = names.replace("payload", dialect.to_json.format("payload"))
        self.insert_nodes = text(f"""
            insert into windlass_task ({names}) select {values} from {nodes} where true
            {dialect.unless_there}""")
        self.insert_slots = text(f"""
            insert into windlass_slot (dep_id, task_id, rule) select dep_id, task_id, rule
            from {dialect.rows("slots", **columns_of(NewSlot))} where true {slot_there}""")
        self.edges = text(EDGES.format(slots=slots))
        self.below = text(BELOW.format(slots=slots))
        self.move = text(move.format(moves=dialect.rows("moves", **MOVE, remark=LongText)))
        # Whole rows, as a claim has them.
        whole = ", ".join(f"t.{name}" for name in COLUMNS.split(", "))
        self.rows = text(f"select {whole} from {by_id}")
        self.results = text(f"select t.id, t.result from {by_id}")
        # Fills the slots of nodes that have succeeded, and returns the rows that become due.
        self.fill = fill
        self.is_array = is_array

    def listed(self, ids: Collection[int]) -> str:
        """A list of ids as a parameter of these statements."""
        if self.is_array:
            return "{" + ",".join(map(str, ids)) + "}"
        return document(list(ids))


def _postgresql() -> FlowStatements:
    listed = "= any(cast(:ids as bigint[]))"
    return FlowStatements(
        PostgreSQL(),
        slots=f"(select * from windlass_slot where dep_id {listed}) as s",
        by_id=f"windlass_task as t where t.id {listed}",
        move=f"""
            update windlass_task as t {MOVED.format(t="")} from {{moves}}
            where t.id = any(array(select unnest(cast(:ids as bigint[]))))
              and t.id = moves.id and +t.status = moves.was""",
        fill=often(
            FILL.format(
                materialized="materialized",
                listed=listed,
                runs="id, -1, filled, 0 from unnest(cast(:runs as bigint[]), "
                "cast(:counts as bigint[])) as r (id, filled)",
            )
            + ", moved as ("
            + FILLED.format(
                among="t.id = any(array(select child from c)) and",
                columns=FILL_COLUMNS,
                marked=MARKED,
            )
            + ") select * from moved where status = 0 or (status = 1 and open_slots <= 0)"
            + f" or due_at = {MARKED}"
        ),
        is_array=True,
    )


def _sqlite() -> FlowStatements:
    listed = "in (select value from json_each(:ids))"
    return FlowStatements(
        SQLite(),
        slots=f"(select * from windlass_slot where dep_id {listed}) as s",
        by_id=f"windlass_task as t where t.id {listed}",
        move=f"""
            update windlass_task as t {MOVED.format(t="")} from {{moves}}
            where t.id = moves.id and +t.status = moves.was""",
        fill=text(
            FILL.format(
                materialized="",
                listed=listed,
                runs="r.value, -1, n.value, 0 from json_each(:runs) as r "
                "join json_each(:counts) as n on n.key = r.key",
            )
            + FILLED.format(among="", columns=FILL_COLUMNS, marked=MARKED)
        ),
    )


def _mysql() -> FlowStatements:
    # Always by the primary key, even if the optimiser believes that the table is small.
    listed = "json_table(:ids, '$[*]' columns (id bigint path '$')) as listed"
    by_key = "straight_join windlass_task as t force index (primary) on t.id ="
    return FlowStatements(
        MySQL(),
        slots=f"{listed} straight_join windlass_slot as s on s.dep_id = listed.id",
        by_id=f"{listed} {by_key} listed.id",
        move=f"""
            update {{moves}} {by_key} moves.id {MOVED.format(t="t.")}
            where t.status = moves.was""",
        slot_there="on duplicate key update rule = windlass_slot.rule",
    )


STATEMENTS = PerDialect(sqlite=_sqlite(), postgresql=_postgresql(), mysql=_mysql())
