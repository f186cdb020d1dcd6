"""The tables of Windlass in a schema of their own.

Statements name their tables without a schema. Here the schema is added when they are sent: so they
find their tables whatever the search path of a connection is, behind a pooler and on the caller's
own connection too, and no setting of a session is changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Engine, event

from windlass.database.schema import metadata

Qualify = Callable[[str], str]

# What is not a table in `metadata`.
OTHERS = (
    *("windlass_version", "windlass_number_id", "windlass_task_readable"),
    "windlass_keep_entry",
)
# Not after a dot or a quote: then it has a schema. Not in `for update of`, where none is allowed.
NAME = re.compile(
    r"(?<![\w.\"$])(?<!\bof )(?:"
    + "|".join(sorted([*metadata.tables, *OTHERS], reverse=True))
    + r")(?![\w$])",
    re.IGNORECASE,
)
# An index is named without its table only here.
DROPPED_INDEX = re.compile(r"(\bdrop index )(?=windlass_)", re.IGNORECASE)
REMEMBERED = 4_096


def quoted(schema: str) -> str:
    """The name of a schema as SQL writes it; it was checked to have no quote."""
    return f'"{schema}"'


def qualifier(schema: str) -> Qualify:
    """A function that adds the schema to the names of Windlass tables in a statement."""
    home = f"{quoted(schema)}."

    @lru_cache(REMEMBERED)
    def qualify(statement: str) -> str:
        named = NAME.sub(lambda found: home + found[0], statement)
        return DROPPED_INDEX.sub(lambda found: found[1] + home, named)

    return qualify


def qualify_on(target: Engine | Connection, qualify: Qualify) -> Callable[[], None]:
    """Add the schema to every statement on `target`; returns a function that ends this."""

    def before(
        _connection: Connection,
        _cursor: object,
        statement: str,
        parameters: Any,
        _context: object,
        _many: bool,
    ) -> tuple[str, Any]:
        return qualify(statement), parameters

    event.listen(target, "before_cursor_execute", before, retval=True)
    return lambda: event.remove(target, "before_cursor_execute", before)


@contextmanager
def qualified(connection: Connection, qualify: Qualify | None) -> Iterator[None]:
    """Inside the block, statements on the caller's connection find the tables of Windlass."""
    if qualify is None:
        yield
        return
    end = qualify_on(connection, qualify)
    try:
        yield
    finally:
        end()
