"""The SQL on task rows that the databases share, with gaps for the words of each."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.value.outcome import Visits
from windlass.value.period import GOES

# Fields that may be longer than a key.
LONG = ("payload", "result", "remark", "ids")

# The columns that a run needs, in the order that `stamped` expects.
COLUMNS = (
    "id, kind, task_key, priority, due_at, payload, attempt, lost, started_at, bucket, flow_id"
)

TIERS = """
with recursive tier (kind, priority) as (
    select k.kind, (
        select t.priority from windlass_task t {hint}
        where t.status = 0 and t.kind = k.kind and t.due_at is not null
        order by t.priority limit 1
    ) from {kinds} k
    union all
    select tier.kind, (
        select t.priority from windlass_task t {hint}
        where t.status = 0 and t.kind = tier.kind and t.priority > tier.priority
          and t.due_at is not null
        order by t.priority limit 1
    ) from tier where tier.priority is not null
)
select kind, priority, (
    select t.due_at from windlass_task t {hint}
    where t.status = 0 and t.kind = tier.kind and t.priority = tier.priority
      and t.due_at is not null
    order by t.due_at limit 1
) as due_at
from tier where priority is not null
"""

ALIVE = "select id from windlass_worker where id = :worker and left_at is null"

# Rows that can be taken now.
FREE_AND_DUE = """status = 0 and kind = :kind and priority = :priority
  and due_at between :due_from and :due_until and bucket between :bucket_from and :bucket_to
  and batch is null and lost_in_a_row between :lost_from and :lost_to"""

PICK = f"""
select {COLUMNS} from windlass_task {{hint}}
where {FREE_AND_DUE}
order by due_at limit :limit {{lock}}
"""

PICK_IDS = PICK.replace(COLUMNS, "id")

# Whether a row has not changed since it was read (True) or claimed (False); its fence follows. The
# plus keeps planners from using another index than the primary key.
AS_TAKEN = {
    True: "+t.status = 0 and t.batch is null and +t.due_at =",
    False: "+t.status = 1 and t.batch =",
}

# The new values of a recurring row after a successful run.
VISITED = """status = 0, due_at = :due_at, batch = null, attempt = 0, lost = 0, lost_in_a_row = 0,
    worker = :worker, finished_at = :finished_at, last_status = 2, result = null, remark = null,
    priority = coalesce(:priority, priority)"""

STAMPED = """batch = :batch, worker = :worker, due_at = :lease_end,
    started_at = {greatest}(:now, coalesce(started_at, 0) + 1)"""

STAMP = f"""
update windlass_task set status = 1, attempt = attempt + 1, {STAMPED}
where id {{ids}}
"""

ABANDONED = f"""
select {COLUMNS}, lost_in_a_row
from windlass_task {{hint}}
where status = 1 and kind {{kinds}} and due_at <= :now
  and worker in (select id from windlass_worker where left_at is not null)
limit :limit {{lock}}
"""

RESCUE = f"""
update windlass_task
set attempt = attempt + :attempt, lost = lost + 1, lost_in_a_row = lost_in_a_row + 1, {STAMPED}
where id {{ids}}
"""

INSERT = """
insert into windlass_task
    (id, kind, task_key, bucket, status, priority, due_at, payload, created_at)
select id, kind, task_key, bucket, 0, priority, due_at, {payload}, created_at
from {rows} where true {unless_there} {returning}
"""

INSERT_LANED = """
insert into windlass_task
    (id, kind, task_key, bucket, status, priority, due_at, payload, created_at, lane, lane_place)
select id, kind, task_key, bucket, 0, priority, due_at, {payload}, created_at, lane, lane_place
from {rows} where true {unless_there} {returning}
"""

# The places of lanes with waiting rows, each found by one step in the index of lanes, however many
# rows are behind the first.
LANES = """
with recursive lane (place, number) as (
    select (
        select t.lane_place from windlass_task t {hint}
        where t.kind = :kind and t.status = 0 and t.lane_place between :first and :last
          and t.due_at is not null
        order by t.lane_place limit 1
    ), 1
    union all
    select (
        select t.lane_place from windlass_task t {hint}
        where t.kind = :kind and t.status = 0 and t.lane_place > lane.place
          and t.lane_place <= :last and t.due_at is not null
        order by t.lane_place limit 1
    ), lane.number + 1
    from lane where lane.place is not null and lane.number < :limit
)
select place from lane where place is not null
"""

# Whether a kind has waiting rows with a lane.
HAS_LANES = """select * from (
    select kind from windlass_task {hint}
    where kind = :kind_{index} and status = 0 and lane_place >= 0 and due_at is not null
    order by lane_place limit 1
) as kind_{index}"""

# The first rows of each lane of which none runs: the row that holds the lane, and then others in
# the order of due times.
FREE_LANE = """not exists (
    select 1 from windlass_task r {hint}
    where r.kind = :kind and r.status = 1 and r.lane_place between lanes.held and lanes.place
      and r.due_at is not null
)"""
FIRST_OF_LANE = """
    select {columns} from windlass_task h {hint}
    where h.kind = :kind and h.status = 0 and h.lane_place between lanes.held and lanes.place
      and h.due_at is not null
    order by h.lane_place, h.due_at, h.id limit :most
"""

# The waiting and running rows of one lane: those that hold it, and the first others.
LANE_ROWS = """
select id from windlass_task {hint}
where kind = :kind and status = :status and lane_place = :place and due_at is not null
order by due_at, id limit :limit
"""

# What a worker must know of a row of a lane, after its COLUMNS.
LANE_COLUMNS = f"{COLUMNS}, lost_in_a_row, batch, lane_place"
CHAINS = f"""
select {LANE_COLUMNS} from {{rows}}
cross join lateral ({FIRST_OF_LANE.replace("{columns}", LANE_COLUMNS)}) as first
where {FREE_LANE}
"""
LANED = f"select {LANE_COLUMNS} from windlass_task where id {{ids}} and status = 0 {{lock}}"

# The new values of a row, t, from the list of changes.
CHANGED = f"""{{t}}status = changes.status, {{t}}due_at = changes.due_at, {{t}}batch = null,
    {{t}}attempt = changes.attempt, {{t}}lost = changes.lost, {{t}}lost_in_a_row = 0,
    {{t}}started_at = changes.started_at, {{t}}worker = :worker,
    {{t}}finished_at = coalesce(changes.finished_at, t.finished_at),
    {{t}}prune_at = case when t.prune_at = {GOES} then t.prune_at else changes.prune_at end,
    {{t}}last_status = coalesce(changes.last_status, t.last_status), {{t}}result = {{result}},
    {{t}}remark = case when changes.finished_at is null then t.remark else changes.remark end,
    {{t}}payload = coalesce({{payload}}, t.payload),
    {{t}}priority = coalesce(changes.priority, t.priority)"""

COUNTED = ("done", "failed", "retried", "milliseconds")
COUNT = """
insert into windlass_stat (minute, kind, worker, done, failed, retried, milliseconds)
select minute, kind, worker, done, failed, retried, milliseconds from {rows} where true {added}
"""


REMEMBER = """
insert into windlass_gone (first_id, last_id, gone_at, ids)
select first_id, last_id, gone_at, ids from {rows}
"""


class LongText(str):
    """A text that may be longer than a key."""


def columns_of(row: type[msgspec.Struct]) -> dict[str, type]:
    """The columns of a list of these structs, for `Dialect.rows`."""

    def type_of(field: msgspec.structs.FieldInfo) -> type:
        if field.name in LONG:
            return LongText
        return str if field.type in (str, str | None) else int

    return {field.name: type_of(field) for field in msgspec.structs.fields(row)}


def visited(visits: Visits, worker: int) -> dict[str, Any]:
    """The parameters of VISITED."""
    return {
        "due_at": visits.due_at,
        "finished_at": visits.finished_at,
        "priority": visits.priority,
        "worker": worker,
    }
