"""The saved versions of flow templates."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, func, select, tuple_

from windlass.database.dialect.base import Dialect
from windlass.database.schema import flow_template


class TemplateRow(NamedTuple):
    """One version of a template."""

    name: str
    version: int
    spec: str
    created_at: int


# The column holds no more.
LAST_VERSION = 2**31 - 1
COLUMNS = [flow_template.c[name] for name in TemplateRow._fields]


def latest(connection: Connection, name: str, version: int | None = None) -> TemplateRow | None:
    """A version of a template, or the last one; None if there is none."""
    if version is None:
        return next(iter(versions(connection, name, before=None, limit=1)), None)
    if not 1 <= version <= LAST_VERSION:
        return None
    query = select(*COLUMNS).where(flow_template.c.name == name)
    row = connection.execute(query.where(flow_template.c.version == version)).first()
    return None if row is None else TemplateRow(*row)


def save(
    connection: Connection, dialect: Dialect, name: str, *, spec: str, now: int
) -> TemplateRow:
    """Save a template as its next version, unless the last version is the same."""
    while (found := latest(connection, name)) is None or found.spec != spec:
        version = 1 if found is None else found.version + 1
        # Another process may save this version at the same moment: then this is the next one.
        row = TemplateRow(name, version, spec, now)
        dialect.ensure(connection, flow_template, **row._asdict())
    return found


def versions(
    connection: Connection, name: str, *, before: int | None, limit: int
) -> list[TemplateRow]:
    """The versions of a template, newest first."""
    query = select(*COLUMNS).where(flow_template.c.name == name)
    if before is not None:
        query = query.where(flow_template.c.version < before)
    rows = connection.execute(query.order_by(flow_template.c.version.desc()).limit(limit))
    return [TemplateRow(*row) for row in rows]


def listing(connection: Connection) -> list[TemplateRow]:
    """The last version of every template."""
    name, version = flow_template.c.name, flow_template.c.version
    last = select(name, func.max(version)).group_by(name)
    query = select(*COLUMNS).where(tuple_(name, version).in_(last)).order_by(name)
    return [TemplateRow(*row) for row in connection.execute(query)]
