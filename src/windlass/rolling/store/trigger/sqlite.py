"""Following a table in the same SQLite file.

SQLite applies the conflict clause of the user's statement (INSERT OR REPLACE, OR IGNORE, ...) to
every statement in a trigger. So none of these may meet a conflict: each looks first.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection

from windlass.rolling.store.trigger.base import Follow, Triggers, quoted
from windlass.source.store.table import Table
from windlass.value.period import GOES, PAYLOAD
from windlass.value.task import LONGEST_KEY, RESERVED

NOW = "cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000"

# The code of the item, or null if the key cannot be one.
ITEM = f"""case
    when typeof({{value}}) <> 'blob' and length({{value}}) between 1 and {LONGEST_KEY}
        and substr({{value}}, 1, {len(RESERVED)}) <> '{RESERVED}' collate binary
        and instr({{value}}, char(0)) = 0
    then cast({{value}} as text) end"""

ADD = f"""
    insert into windlass_tally (kind, delta)
    select {{kind}}, 1 from (select {{item}} as item)
    where item is not null and not exists (
        select 1 from windlass_task
        where kind = {{kind}} and task_key = item and prune_at is not {GOES}
    );
    update windlass_task set prune_at = null
    where kind = {{kind}} and task_key = {{item}} and prune_at = {GOES};
    insert into windlass_task
        (id, kind, task_key, bucket, status, priority, due_at, payload, created_at)
    select next, {{kind}}, item, random() & 255, 0, {{priority}}, now, '{PAYLOAD}', now
    from (select {{item}} as item, {NOW} as now), windlass_number
    where name = 'id' and item is not null and not exists (
        select 1 from windlass_task where kind = {{kind}} and task_key = item
    );
    update windlass_number set next = next + 1
    where name = 'id' and exists (select 1 from windlass_task where id = next);
"""

REMOVE = f"""
    insert into windlass_tally (kind, delta)
    select {{kind}}, -1 from windlass_task
    where kind = {{kind}} and task_key = {{item}} and prune_at is not {GOES};
    delete from windlass_task
    where kind = {{kind}} and task_key = {{item}} and (status <> 1 or batch is null);
    update windlass_task set prune_at = {GOES}
    where kind = {{kind}} and task_key = {{item}} and prune_at is not {GOES};
"""

CHANGED = "cast(old.{key} as text) is not cast(new.{key} as text) collate binary"


class SQLiteTriggers(Triggers):
    """Row by row, under the one lock for writing that the user's transaction has anyway."""

    any_found = (
        "select 1 from sqlite_master where type = 'trigger' and name like 'windlass_follow_%'"
    )
    home = "select 'main'"
    listed = "select name from sqlite_master where type = 'trigger'"

    def schema_of(self, source: Table) -> str:
        return "main"

    def creation(self, connection: Connection, follow: Follow) -> Iterable[str]:
        key = quoted(connection, follow.key)
        values = {"kind": literal(follow.kind), "priority": follow.priority}
        add = ADD.format(item=ITEM.format(value=f"new.{key}"), **values)
        remove = REMOVE.format(item=ITEM.format(value=f"old.{key}"), **values)
        bodies = {
            "insert": f"begin {add} end",
            "delete": f"begin {remove} end",
            "update": f"when {CHANGED.format(key=key)} begin {remove} {add} end",
        }
        yield from self.removal(connection, follow)
        for event, body in bodies.items():
            yield (
                f"create trigger {self.quoted_name(connection, follow, event)} after {event} "
                f"on {quoted(connection, follow.table)} for each row {body}"
            )


def literal(value: str) -> str:
    """Text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"
