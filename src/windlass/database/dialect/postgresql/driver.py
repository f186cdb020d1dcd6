"""Direct calls of psycopg: for a small row, SQLAlchemy costs more than the row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from windlass.database.dialect.base import Executor

T = TypeVar("T")

# The server stores this many rows while the next ones are written.
COPY_ROWS = 1_000


def driver_of(executor: Executor) -> Any:
    """The psycopg connection under a SQLAlchemy one; None if there is none or it is async."""
    import psycopg

    if not isinstance(executor, Connection):
        return None
    raw = executor.connection.driver_connection
    return raw if isinstance(raw, psycopg.Connection) else None


def is_direct(raw: Any) -> bool:
    """Whether no pooler is in between: behind a pooler, the backend pid differs."""
    (server,) = raw.execute("select pg_backend_pid()").fetchone()
    raw.rollback()
    return bool(server == raw.info.backend_pid)


@contextmanager
def told(connection: Connection, raw: Any) -> Iterator[None]:
    """Turn errors of the driver into errors of SQLAlchemy."""
    try:
        yield
    except raw.Error as problem:
        if raw.closed:
            connection.invalidate(problem)
        raise OperationalError("insert into windlass_task", {}, problem) from problem


def copy_lines(
    executor: Executor, statement: str, rows: Sequence[T], line: Callable[[T], str]
) -> bool:
    """Write rows by COPY, each as its `line`; False without a psycopg connection."""
    raw = driver_of(executor)
    if raw is None or not isinstance(executor, Connection):
        return False
    with told(executor, raw), raw.cursor() as cursor, cursor.copy(statement) as copy:
        for begin in range(0, len(rows), COPY_ROWS):
            copy.write("".join(map(line, rows[begin : begin + COPY_ROWS])))
    return True


def escaped(text: str) -> str:
    """`text`, escaped for COPY."""
    if "\\" not in text and text.isprintable():
        return text
    text = text.replace("\\", "\\\\").replace("\t", "\\t")
    return text.replace("\n", "\\n").replace("\r", "\\r")


def array(numbers: Iterable[int]) -> str:
    """An array as text; the driver would convert it number by number."""
    return "{" + ",".join(map(str, numbers)) + "}"
