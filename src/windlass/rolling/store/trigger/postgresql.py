"""Following a table in the same PostgreSQL database, statement by statement.

A statement with 100,000 rows fires once, with all its rows. A session plans a function once, maybe
while the tables are empty: so the function uses indexes whatever the statistics say.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, text

from windlass.database.dialect.base import BLOCK
from windlass.rolling.store.trigger.base import Follow, Triggers, quoted
from windlass.source.store.table import Table
from windlass.value.period import GOES, PAYLOAD
from windlass.value.task import LONGEST_KEY, RESERVED

# While we wait for the table, every writer to it waits behind us: so give up and try again.
LOCK_SECONDS = 3

FUNCTION = """
create or replace function {function}() returns trigger language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as {body}
"""

BODY = """
#variable_conflict use_column
declare
    moment bigint := cast(extract(epoch from clock_timestamp()) * 1000000 as bigint);
    many bigint;
    blocks bigint[];
    kept bigint;
    made bigint;
    gone bigint;
begin
    {work}
    return null;
end
"""

ITEM = 'cast({column} as text) collate "C"'

ITEMS = f"""
    select item from ({{rows}}) as r (item)
    where length(item) between 1 and {LONGEST_KEY} and not starts_with(item, '{RESERVED}')
"""

# One index lookup for each item, however few rows the planner expects.
FOUND = """
    select f.id from ({items}) as i cross join lateral (
        select t.id from {task} as t where t.kind = {kind} and t.task_key = i.item limit 1
    ) as f
"""

# Rows that were removed while they run are kept first. This waits for a run that is just ending:
# then its row is deleted, and is created again below.
ADD = f"""
    select count(*) into many from ({{rows}}) as r;
    if many > 0 then
        kept := 0;
        if exists (select from {{task}} where prune_at = {GOES}) then
            with held as materialized (
                select id from {{task}} where id = any(array({{found}})) and prune_at = {GOES}
                order by id for update
            )
            update {{task}} set prune_at = null where id = any(array(select id from held));
            get diagnostics kept = row_count;
        end if;
        blocks := array[nextval({{sequence}})];
        if many > {BLOCK} then
            blocks := blocks || array(
                select nextval({{sequence}}) from generate_series(1, (many - 1) / {BLOCK})
            );
        end if;
        insert into {{task}}
            (id, kind, task_key, bucket, status, priority, due_at, payload, created_at)
        select blocks[place / {BLOCK} + 1] + place % {BLOCK}, {{kind}}, item,
               floor(random() * 256), 0, {{priority}}, moment, cast('{PAYLOAD}' as json), moment
        from (
            select item, row_number() over (order by item) - 1 as place from ({{items}}) as i
        ) as p
        on conflict do nothing;
        get diagnostics made = row_count;
        if made + kept > 0 then
            insert into {{tally}} (kind, delta) values ({{kind}}, made + kept);
        end if;
    end if;
"""

REMOVE = f"""
    with held as materialized (
        select id, status = 1 and batch is not null as is_running,
            prune_at is not distinct from {GOES} as is_going
        from {{task}} where id = any(array({{found}})) order by id for update
    ), marked as (
        update {{task}} set prune_at = {GOES}
        where id = any(array(select id from held where is_running and not is_going))
    ), deleted as (
        delete from {{task}} where id = any(array(select id from held where not is_running))
    )
    select count(*) into gone from held where not held.is_going;
    if gone > 0 then
        insert into {{tally}} (kind, delta) values ({{kind}}, -gone);
    end if;
"""

ADDED = "select {item} from windlass_new"
REMOVED = "select {item} from windlass_old"

EVENTS = {
    "insert": "after insert on {source} referencing new table as windlass_new for each statement",
    "delete": "after delete on {source} referencing old table as windlass_old for each statement",
    "update": "after update on {source} for each row when ({old_item} is distinct from {new_item})",
    "truncate": "before truncate on {source} for each statement",
}
UPDATE_TOGETHER = """
after update on {source} referencing old table as windlass_old new table as windlass_new
for each statement
"""


class PostgreSQLTriggers(Triggers):
    """The functions are kept beside the tables of Windlass."""

    events = tuple(EVENTS)
    any_found = """
        select 1 from pg_trigger t join pg_proc f on f.oid = t.tgfoid
        where not t.tgisinternal and f.proname like 'windlass_follow_%'
          and f.pronamespace = (
              select relnamespace from pg_class where oid = to_regclass('windlass_task')
          )
        limit 1
    """

    home = """
        select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where c.oid = cast('windlass_task' as regclass)
    """
    listed = """
        select t.tgname from pg_trigger t join pg_class c on c.oid = t.tgrelid
        join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = :schema and c.relname = :table
    """

    def schema_of(self, source: Table) -> str:
        visible = text(
            "select coalesce((select n.nspname from pg_class c "
            "join pg_namespace n on n.oid = c.relnamespace "
            "where c.relname = :table and pg_table_is_visible(c.oid)), current_schema())"
        )
        with source.connect() as connection:
            return str(connection.scalar(visible, {"table": source.table}))

    def creation(self, connection: Connection, follow: Follow) -> Iterable[str]:
        yield from self.removal(connection, follow)
        names = _names(connection, follow)
        together = not _keys_change_one_by_one(connection, follow)
        for event, work in _works(names, together=together).items():
            function = quoted(connection, follow.home, follow.name(event))
            yield FUNCTION.format(function=function, body=literal(BODY.format(work=work)))
            when = UPDATE_TOGETHER if together and event == "update" else EVENTS[event]
            yield (
                f"create trigger {quoted(connection, follow.name(event))} "
                f"{when.format(**names)} execute procedure {function}()"
            )

    def removal(self, connection: Connection, follow: Follow) -> Iterable[str]:
        yield f"set local lock_timeout = '{LOCK_SECONDS}s'"
        for event in self.events:
            function = quoted(connection, follow.home, follow.name(event))
            # The trigger is dropped with its function, also on a table that has moved.
            yield f"drop function if exists {function}() cascade"


def _works(names: dict[str, str], *, together: bool) -> dict[str, str]:
    """The body of each event's function."""
    added, removed = ADDED.format(**names), REMOVED.format(**names)
    gone, come = f"select {names['old_item']}", f"select {names['new_item']}"
    if together:
        gone, come = f"{removed} except {added}", f"{added} except {removed}"
    return {
        "insert": _work(ADD, added, names),
        "delete": _work(REMOVE, removed, names),
        "update": _work(REMOVE, gone, names) + _work(ADD, come, names),
        "truncate": _work(REMOVE, f"select {names['item']} from {names['source']}", names),
    }


def _work(template: str, rows: str, names: dict[str, str]) -> str:
    items = ITEMS.format(rows=rows)
    return template.format(
        rows=rows, items=items, found=FOUND.format(items=items, **names), **names
    )


def _names(connection: Connection, follow: Follow) -> dict[str, str]:
    key = quoted(connection, follow.key)
    return {
        "source": quoted(connection, follow.schema, follow.table),
        "key": key,
        "item": ITEM.format(column=key),
        "old_item": ITEM.format(column=f"old.{key}"),
        "new_item": ITEM.format(column=f"new.{key}"),
        "task": quoted(connection, follow.home, "windlass_task"),
        "tally": quoted(connection, follow.home, "windlass_tally"),
        "sequence": literal(quoted(connection, follow.home, "windlass_number_id")),
        "kind": literal(follow.kind),
        "priority": str(follow.priority),
    }


def _keys_change_one_by_one(connection: Connection, follow: Follow) -> bool:
    """Whether no statement can exchange keys, and every change of a row fires its trigger.

    Only an index that is unique at every moment forbids the first. A row that moves to another
    partition does not fire a trigger for rows.
    """
    found = connection.scalar(
        text(
            "select true from pg_class c join pg_namespace n on n.oid = c.relnamespace "
            "join pg_attribute a on a.attrelid = c.oid and a.attname = :key "
            "join pg_index i on i.indrelid = c.oid and i.indkey[0] = a.attnum "
            "where n.nspname = :schema and c.relname = :table and c.relkind = 'r' "
            "and i.indisunique and i.indimmediate and i.indnkeyatts = 1 and i.indpred is null "
            "limit 1"
        ),
        {"schema": follow.schema, "table": follow.table, "key": follow.key},
    )
    return bool(found)


def literal(value: str) -> str:
    """Text as SQL writes it, whatever backslashes mean to the server."""
    return "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
