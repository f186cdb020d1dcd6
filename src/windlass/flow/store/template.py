"""Templates of flows, each version as it was saved."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, func, insert, select

from windlass.database.schema import flow_template


class TemplateRow(NamedTuple):
    """One version of a template."""

    name: str
    version: int
    spec: str
    created_at: int


COLUMNS = (
    flow_template.c.name,
    flow_template.c.version,
    flow_template.c.spec,
    flow_template.c.created_at,
)


def latest(connection: Connection, name: str, version: int | None = None) -> TemplateRow | None:
    """A version of a template, or the last one."""
    query = select(*COLUMNS).where(flow_template.c.name == name)
    if version is not None:
        query = query.where(flow_template.c.version == version)
    row = connection.execute(query.order_by(flow_template.c.version.desc()).limit(1)).first()
    return None if row is None else TemplateRow(*row)


def save(connection: Connection, name: str, spec: str, *, now: int) -> TemplateRow:
    """Save a template as its next version, unless it is what the last version is."""
    found = latest(connection, name)
    if found is not None and found.spec == spec:
        return found
    row = TemplateRow(name, 1 if found is None else found.version + 1, spec, now)
    connection.execute(insert(flow_template).values(**row._asdict()))
    return row


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
    last = (
        select(flow_template.c.name, func.max(flow_template.c.version).label("version"))
        .group_by(flow_template.c.name)
        .subquery()
    )
    query = (
        select(*COLUMNS)
        .join(
            last,
            (last.c.name == flow_template.c.name) & (last.c.version == flow_template.c.version),
        )
        .order_by(flow_template.c.name)
    )
    return [TemplateRow(*row) for row in connection.execute(query)]
