"""MySQL or MariaDB: which of them a connection leads to, and the settings of its session.

Both speak one protocol, and a `mysql://` URL may lead to either. The server tells its version when
a connection begins, so nobody has to ask. In statements, `/*!80000 ... */` is for MySQL alone:
MariaDB takes it for a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from windlass.errors import BadDatabase

LOCK_SECONDS = 2
# A read sends all its rows as one line, if they are not longer than this.
LINE_BYTES = 4 * 1024 * 1024
# The first of a release that has what Windlass needs: SKIP LOCKED, JSON_TABLE, and a collation
# that compares byte by byte without padding.
MYSQL_NEEDS = (8, 0, 17)
MARIADB_NEEDS = (10, 6, 0)
# MariaDB weighs scans by a setting from here on. Reading by an index costs less than this.
COSTS_ARE_SETTINGS = (11, 0, 0)
SCAN_COST = 1_000_000_000
# MariaDB before 11 says "5.5.5-" first, for clients that expect a single digit.
VERSION = re.compile(r"(?:5\.5\.5-)?(\d+)\.(\d+)(?:\.(\d+))?")

# Ends a select that locks the rows of t alone. MySQL would also lock the rows of a JSON document,
# which it refuses; MariaDB does not, and does not know the word.
HOLD_T = "for update /*!80000 of t */"
# MySQL has several forms of a plan; this one is a table in both.
EXPLAIN = "explain /*!80000 format=traditional */"


@dataclass(frozen=True)
class Server:
    """One of the two, by its name in `PerDialect`."""

    name: str
    version: tuple[int, ...]

    def settings(self, *, idle_seconds: int, statement_seconds: float | None) -> Iterator[str]:
        """Settings of a new session, as SQL.

        A frozen process must not hold its locks for long: after `idle_seconds` without a statement
        the server ends its transaction.
        """
        # A finish that waits too long delays the heartbeat of its worker.
        yield f"innodb_lock_wait_timeout = {LOCK_SECONDS}"
        if self.name == "mariadb":
            yield f"idle_transaction_timeout = {idle_seconds}"
            if self.version >= COSTS_ARE_SETTINGS:
                # A statement that scans a small table waits for rows that others have locked.
                yield f"optimizer_scan_setup_cost = {SCAN_COST}"
            if statement_seconds is not None:
                yield f"max_statement_time = {statement_seconds:f}"
        else:
            # MySQL has no limit for transactions, only one for connections.
            yield f"wait_timeout = {idle_seconds}"
            yield f"group_concat_max_len = {LINE_BYTES}"
            if statement_seconds is not None:
                # It ends only statements that read; others end by the bound of the socket.
                yield f"max_execution_time = {statement_seconds * 1_000:.0f}"

    @property
    def closes_idle_connections(self) -> bool:
        """Whether the limit for idle transactions ends every idle connection."""
        return self.name == "mysql"


def identify(raw: Any) -> Server:
    """The server that a driver's connection leads to; one that is too old is refused."""
    return server_named(str(raw.get_server_info()))


def server_named(told: str) -> Server:
    """The server that tells this version of itself; one that is too old is refused."""
    name, title, needs = "mysql", "MySQL", MYSQL_NEEDS
    if "mariadb" in told.lower():
        name, title, needs = "mariadb", "MariaDB", MARIADB_NEEDS
    found = VERSION.match(told)
    # A server without a number in its version is a private build.
    version = tuple(int(part or 0) for part in found.groups()) if found else needs
    if version < needs:
        raise BadDatabase(
            f"the server is {title} {_dotted(version)}, and Windlass needs {title} "
            f"{_dotted(needs)} or newer; upgrade the server"
        )
    return Server(name, version)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
