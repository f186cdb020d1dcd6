"""What all tables share: one set of metadata, the prefix of their names, and options."""

from __future__ import annotations

from sqlalchemy import MetaData, Table

from windlass.database.column import OPTIONS, Part, flat

metadata = MetaData()


def table(name: str, *parts: Part) -> Table:
    """A table of Windlass."""
    return Table(f"windlass_{name}", metadata, *flat(parts), **OPTIONS)
