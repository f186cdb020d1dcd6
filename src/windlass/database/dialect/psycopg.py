"""Direct calls of psycopg: for a small row, SQLAlchemy costs more than the row."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from windlass.database.dialect.base import Executor
from windlass.errors import BadDatabase

if TYPE_CHECKING:
    import psycopg
    from psycopg.abc import PQGen

T = TypeVar("T")

# The first release that has what Windlass needs: parts of a statement that are materialised (12),
# and databases that are dropped while they are in use (13).
NEEDS = 13

# The server stores this many rows while the next ones are written.
COPY_ROWS = 1_000
# The rows of one statement, which must end within its time limit.
STATEMENT_ROWS = 50_000


def driver_of(executor: Executor) -> Any:
    """The psycopg connection under a SQLAlchemy one; None if there is none or it is async."""
    import psycopg

    if not isinstance(executor, Connection):
        return None
    raw = executor.connection.driver_connection
    return raw if isinstance(raw, psycopg.Connection) else None


def known_options() -> set[str]:
    """What libpq can be told about a connection, and psycopg itself."""
    import psycopg

    libpq = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()}
    return libpq | {*signature(psycopg.Connection.connect).parameters}


def refuse_old(number: int) -> None:
    """Raise BadDatabase if a server that numbers its release so is too old."""
    # 150018 is 15.18, and 90624 is 9.6.24; 0 stands for a server that does not tell.
    if 0 < number < NEEDS * 10_000:
        major, minor = divmod(number, 10_000)
        found = f"{major}.{minor}" if major >= 10 else f"{major}.{minor // 100}.{minor % 100}"
        raise BadDatabase(
            f"the server is PostgreSQL {found}, and Windlass needs PostgreSQL {NEEDS} or newer; "
            "upgrade the server"
        )


def is_direct(raw: Any) -> bool:
    """Whether no pooler is in between: behind a pooler, the backend pid differs."""
    (server,) = raw.execute("select pg_backend_pid()").fetchone()
    raw.rollback()
    return bool(server == raw.info.backend_pid)


def limit_statements(raw: Any, seconds: float) -> None:
    """Have the server end statements of this session after that time."""
    limit = f"{seconds * 1_000:.0f}ms"
    raw.execute("select set_config('statement_timeout', %s, false)", [limit])
    raw.commit()


def bounded(seconds: float) -> type[psycopg.Connection[Any]]:
    """Connections that are closed when the server is silent for so long during a statement.

    psycopg itself would wait forever: the kernel of a stalled server acknowledges what was sent.
    """
    import psycopg

    class BoundedConnection(psycopg.Connection[Any]):
        def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
            return super().wait(self._in_time(gen), *args, **options)

        def _in_time(self, steps: PQGen[T]) -> Generator[Any, Any, T]:
            silent_since: float | None = None
            try:
                wanted = next(steps)
                while True:
                    is_ready = yield wanted
                    if is_ready:
                        silent_since = None
                    elif silent_since is None:
                        # psycopg says ten times a second that nothing was received.
                        silent_since = time.monotonic()
                    elif time.monotonic() - silent_since > seconds:
                        self.close()
                        raise psycopg.OperationalError(
                            f"the server did not answer for {seconds:g} s, and the connection "
                            "was closed"
                        )
                    wanted = steps.send(is_ready)
            except StopIteration as end:
                answer: T = end.value
                return answer

    return BoundedConnection


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
    with told(executor, raw), raw.cursor() as cursor:
        for first in range(0, len(rows), STATEMENT_ROWS):
            last = min(first + STATEMENT_ROWS, len(rows))
            with cursor.copy(statement) as copy:
                for begin in range(first, last, COPY_ROWS):
                    end = min(begin + COPY_ROWS, last)
                    copy.write("".join(map(line, rows[begin:end])))
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
