"""The catalog: which steps of a migration were done already, and how large tables are."""

from __future__ import annotations

from sqlalchemy import Connection, text

from windlass.database.dialect import PerDialect
from windlass.database.migration.step import TableStep, Verb

# Everything that a database has: what it is, its table, its name. PostgreSQL keeps an index whose
# concurrent build was cut off; it is invalid, and so not listed as an index.
SQLITE = """
select type, tbl_name, name from sqlite_master
union all
select 'column', m.name, c.name from sqlite_master m, pragma_table_info(m.name) c
where m.type = 'table'
"""

POSTGRESQL = """
select case c.relkind when 'v' then 'view' when 'S' then 'sequence' else 'table' end,
    c.relname, c.relname
from pg_class c where c.relnamespace = current_schema()::regnamespace and c.relkind in
    ('r', 'p', 'v', 'S')
union all
select case when i.indisvalid then 'index' else 'invalid' end, t.relname, c.relname
from pg_index i join pg_class c on c.oid = i.indexrelid join pg_class t on t.oid = i.indrelid
where t.relnamespace = current_schema()::regnamespace
union all
select 'column', t.relname, a.attname
from pg_attribute a join pg_class t on t.oid = a.attrelid
where t.relnamespace = current_schema()::regnamespace and a.attnum > 0 and not a.attisdropped
"""

MYSQL = """
select case table_type when 'VIEW' then 'view' else 'table' end, table_name, table_name
from information_schema.tables where table_schema = database()
union all
select distinct 'index', table_name, index_name
from information_schema.statistics where table_schema = database()
union all
select 'column', table_name, column_name
from information_schema.columns where table_schema = database()
"""

ITEMS = PerDialect(
    sqlite=SQLITE,
    # In the schema of the tables, if they have one of their own.
    postgresql=POSTGRESQL.replace(
        "current_schema()::regnamespace",
        "(select oid from pg_namespace where nspname = coalesce(:schema, current_schema()))",
    ),
    mysql=MYSQL,
)

# Estimates of the number of rows; SQLite has none, so at most a million are counted.
ROWS = PerDialect(
    sqlite="select count(*) from (select 1 from {table} limit 1000000)",
    # A table that was never analysed has only a size.
    postgresql=(
        "select case when reltuples > 0 then reltuples else pg_relation_size(oid) / 150 end "
        "from pg_class where oid = to_regclass('{table}')"
    ),
    mysql=(
        "select table_rows from information_schema.tables "
        "where table_schema = database() and table_name = '{table}'"
    ),
)


class Catalog:
    """What a database has, as it was when this was made."""

    def __init__(self, connection: Connection, *, schema: str | None = None) -> None:
        self._connection = connection
        query = text(ITEMS.on(connection))
        asked = dict.fromkeys(query.compile().params, schema)
        rows = connection.execute(query, asked).fetchall()
        self._items = {(str(what), str(table), str(name)) for what, table, name in rows}

    def is_done(self, step: TableStep) -> bool:
        """Whether the step was done, entirely."""
        if step.verb is Verb.INSERT:
            return self.has_table(step.table) and self._has_rows(step.table)
        is_there = (step.noun, step.table, step.name) in self._items
        return is_there is not step.verb.is_drop

    def is_invalid(self, step: TableStep) -> bool:
        """Whether the step creates an index whose build was cut off."""
        return ("invalid", step.table, step.name) in self._items

    def has_table(self, table: str) -> bool:
        return ("table", table, table) in self._items

    def rows(self, table: str) -> int:
        """About how many rows a table has; 0 if there is no such table."""
        if not self.has_table(table):
            return 0
        asked = ROWS.on(self._connection).format(table=table)
        return int(self._connection.execute(text(asked)).scalar() or 0)

    def _has_rows(self, table: str) -> bool:
        found = self._connection.execute(text(f"select 1 from {table} limit 1"))
        return found.scalar() is not None
