"""Bounds: how long a database may take to answer, and how many connections a process opens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

from windlass.errors import BadInput
from windlass.value.duration import Duration, parse_duration

MICROSECONDS = 1_000_000
# The server gets this long to end a statement by itself, before its connection is given up.
MARGIN_SECONDS = 5.0
MOST_CONNECTIONS = 1_000


class BoundOptions(TypedDict, total=False):
    """The options of App and Ledger that bound their databases."""

    connect_timeout: Duration
    statement_timeout: Duration
    socket_timeout: Duration | None
    pool_size: int
    pool_timeout: Duration


@dataclass(frozen=True)
class Bounds:
    """Times in seconds; None is no bound."""

    connect: float = 5.0
    # For one statement; the server ends it.
    statement: float | None = 30.0
    # For the next bytes of an answer; then the connection is closed.
    socket: float | None = 30.0 + MARGIN_SECONDS
    # The most connections of one pool, and how long a call waits for one that is free.
    pool_size: int = 16
    pool_wait: float = 30.0

    @property
    def pool(self) -> dict[str, float]:
        """The options of the pool; half of its connections stay open."""
        kept = (self.pool_size + 1) // 2
        return {
            "pool_size": kept,
            "max_overflow": self.pool_size - kept,
            "pool_timeout": self.pool_wait,
        }

    @property
    def endless(self) -> Bounds:
        """For long work: a statement may take any time."""
        return replace(self, statement=None, socket=None)

    def with_pool(self, size: int) -> Bounds:
        """The same times, with at most `size` connections."""
        return replace(self, pool_size=size)


def make_bounds(**given: Unpack[BoundOptions]) -> Bounds:
    """The bounds that these options ask for."""
    statement = _seconds("statement_timeout", given.get("statement_timeout", "30s"))
    asked = given.get("socket_timeout")
    socket = statement + MARGIN_SECONDS if asked is None else _seconds("socket_timeout", asked)
    if socket < statement:
        raise BadInput(
            f"socket_timeout={asked!r} is shorter than the statement_timeout of {statement:g} s; "
            "leave it out, or give a longer one"
        )
    size = given.get("pool_size", 16)
    if type(size) is not int or not 1 <= size <= MOST_CONNECTIONS:
        raise BadInput(f"pool_size={size!r} is not a number from 1 to {MOST_CONNECTIONS}")
    return Bounds(
        connect=_seconds("connect_timeout", given.get("connect_timeout", "5s")),
        statement=statement,
        socket=socket,
        pool_size=size,
        pool_wait=_seconds("pool_timeout", given.get("pool_timeout", "30s")),
    )


def _seconds(what: str, given: Duration) -> float:
    return parse_duration(given, what=what) / MICROSECONDS
