"""Migrations of the tables: their files, their steps, how they run, and what they will lock."""

from windlass.database.migration.quiet import quietly

with quietly():
    # It logs when it is imported.
    import alembic.runtime.migration  # noqa: F401
