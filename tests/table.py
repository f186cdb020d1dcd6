"""What the tables hold, as tests look at them."""

from typing import Any

from sqlalchemy import Table, func, select

from windlass import App, TaskRef
from windlass.database import schema


def tasks(app: App, **wanted: Any) -> list[dict[str, Any]]:
    """Task rows whose columns have the wanted values, oldest first."""
    return _rows(app, schema.task, wanted)


def task(app: App, ref: TaskRef | int) -> dict[str, Any] | None:
    """The row of one task, or None."""
    found = tasks(app, id=ref if isinstance(ref, int) else ref.id)
    return found[0] if found else None


def failures(app: App, **wanted: Any) -> list[dict[str, Any]]:
    """Remembered failures, oldest first."""
    return _rows(app, schema.failure, wanted)


def workers(app: App, **wanted: Any) -> list[dict[str, Any]]:
    """Worker rows, oldest first."""
    return _rows(app, schema.worker, wanted)


def count(app: App, table: Table = schema.task) -> int:
    """How many rows a table has."""
    return app.database.read(
        lambda connection: connection.scalar(select(func.count()).select_from(table))
    )


def _rows(app: App, table: Table, wanted: dict[str, Any]) -> list[dict[str, Any]]:
    query = select(table).order_by(*table.primary_key.columns)
    for name, value in wanted.items():
        query = query.where(table.c[name] == value)
    return app.database.read(
        lambda connection: [dict(row) for row in connection.execute(query).mappings()]
    )
