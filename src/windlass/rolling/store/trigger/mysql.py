"""Following a table on the same MySQL or MariaDB server, row by row.

A trigger never touches `windlass_number`: its one row would make the user's transactions wait for
each other. The tally row that an item adds has a number of its own; the item takes that number,
negated. INSERT IGNORE finds out whether the item exists: a select reads what the user's
transaction saw when it began, not what is there now. Every statement names its index: MySQL scans
a small table without one, and so locks all of it. Rows are locked by their id where possible:
another index would also lock the gaps beside them, and other transactions would wait there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection

from windlass.rolling.store.trigger.base import Follow, Triggers, quoted, run
from windlass.source.store.table import Table
from windlass.value.period import GOES, PAYLOAD
from windlass.value.task import LONGEST_KEY, RESERVED

# The default is a day or more, and everything that users do with the table would wait behind it.
LOCK_SECONDS = 10

# `item` is the code of the item, or null if the key cannot be one.
DECLARE = f"""
    declare given longtext character set utf8mb4 collate {{collation}}
        default convert({{row}}.{{key}} using utf8mb4);
    declare item varchar({LONGEST_KEY}) character set utf8mb4 collate {{collation}}
        default if(
            char_length(given) between 1 and {LONGEST_KEY}
            and left(given, {len(RESERVED)}) <> '{RESERVED}' and instr(given, 0x00) = 0,
            given, null
        );
"""

ADD = f"""begin
    {DECLARE}
    declare number, other bigint;
    declare is_going boolean;
    declare moment bigint default timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    declare continue handler for not found begin end;
    if item is not null then
        insert into {{home}}.windlass_tally (kind, delta) values ({{kind}}, 1);
        set number = last_insert_id();
        insert ignore into {{home}}.windlass_task
            (id, kind, task_key, bucket, status, priority, due_at, payload, created_at)
        values (-number, {{kind}}, item, crc32(item) >> 24, 0, {{priority}}, moment, '{PAYLOAD}',
            moment);
        if not exists (select 1 from {{home}}.windlass_task where id = -number) then
            select id, prune_at <=> {GOES} into other, is_going
            from {{home}}.windlass_task force index (windlass_task_key)
            where kind = {{kind}} and task_key = item for update;
            if is_going then
                update {{home}}.windlass_task force index (primary)
                set prune_at = null where id = other;
            else
                delete t from {{home}}.windlass_tally as t force index (primary)
                where t.id = number;
            end if;
        end if;
    end if;
end;"""

REMOVE = f"""begin
    {DECLARE}
    declare number bigint;
    declare is_running, is_going boolean;
    declare continue handler for not found begin end;
    if item is not null then
        select id into number from {{home}}.windlass_task force index (windlass_task_key)
        where kind = {{kind}} and task_key = item;
        select status = 1 and batch is not null, prune_at <=> {GOES} into is_running, is_going
        from {{home}}.windlass_task
        where id = number and kind = {{kind}} and task_key = item for update;
        if is_running is null then
            set number = null;
            select id, status = 1 and batch is not null, prune_at <=> {GOES}
            into number, is_running, is_going
            from {{home}}.windlass_task force index (windlass_task_key)
            where kind = {{kind}} and task_key = item for update;
        end if;
        if is_running then
            update {{home}}.windlass_task force index (primary)
            set prune_at = {GOES} where id = number;
        elseif number is not null then
            delete t from {{home}}.windlass_task as t force index (primary) where t.id = number;
        end if;
        if not is_going then
            insert into {{home}}.windlass_tally (kind, delta) values ({{kind}}, -1);
        end if;
    end if;
end;"""

CHANGED = "not (cast(old.{key} as binary) <=> cast(new.{key} as binary))"


@dataclass(frozen=True)
class MySQLTriggers(Triggers):
    """A trigger lives beside its table, and names the tables of Windlass in full."""

    collation: str
    can_replace: bool
    any_found = (
        "select 1 from information_schema.triggers where trigger_name like 'windlass_follow_%' "
        "and instr(action_statement, concat('`', database(), '`.windlass_task')) > 0 limit 1"
    )
    home = "select database()"
    listed = "select trigger_name from information_schema.triggers where trigger_schema = :schema"

    def schema_of(self, source: Table) -> str:
        return source.url.database or ""

    def creation(self, connection: Connection, follow: Follow) -> Iterable[str]:
        key = quoted(connection, follow.key)
        values = {
            "home": quoted(connection, follow.home),
            "kind": literal(follow.kind),
            "priority": follow.priority,
            "key": key,
            "collation": self.collation,
        }
        add, remove = ADD.format(row="new", **values), REMOVE.format(row="old", **values)
        bodies = {
            "insert": f"begin {add} end",
            "delete": f"begin {remove} end",
            "update": f"begin if {CHANGED.format(key=key)} then {remove} {add} end if; end",
        }
        # Replacing leaves no moment without a trigger.
        create = "create or replace" if self.can_replace else "create"
        for event, body in bodies.items():
            name = self.quoted_name(connection, follow, event)
            if not self.can_replace:
                yield f"drop trigger if exists {name}"
            yield (
                f"{create} trigger {name} after {event} "
                f"on {quoted(connection, follow.schema, follow.table)} for each row {body}"
            )

    def install(self, connection: Connection, source: Table, *, kind: str, priority: int) -> None:
        run(connection, f"set session lock_wait_timeout = {LOCK_SECONDS}")
        try:
            super().install(connection, source, kind=kind, priority=priority)
        finally:
            run(connection, "set session lock_wait_timeout = default")


def literal(value: str) -> str:
    """Text as SQL writes it, in any SQL mode of the server."""
    return f"_utf8mb4 0x{value.encode().hex()}"
