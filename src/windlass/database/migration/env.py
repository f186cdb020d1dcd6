"""Alembic's entry point: runs the migrations on a connection, or prints them for a URL."""

from __future__ import annotations

from alembic import context

from windlass.database.migrate import VERSION_TABLE
from windlass.database.schema import metadata

connection = context.config.attributes.get("connection")
schema = context.config.attributes.get("schema")
if connection is not None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        version_table_schema=schema,
    )
    context.run_migrations()
else:
    context.configure(
        url=context.config.attributes["url"],
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        version_table_schema=schema,
        literal_binds=True,
    )
    with context.begin_transaction():
        context.run_migrations()
