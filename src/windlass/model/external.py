"""External systems: what they answer when they are asked, and how often they are asked."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Protocol

from windlass.errors import ExternalDown

LONGEST_HANDLE = 255
MOST_BACKOFF = 5


@dataclass(frozen=True, slots=True)
class Running:
    """It is not done yet."""


@dataclass(frozen=True, slots=True)
class Done:
    """It is done, and this came of it."""

    result: object = None


@dataclass(frozen=True, slots=True)
class Failed:
    """It failed over there."""

    reason: str = "the external system says that it failed"


Answer = Running | Done | Failed


class ExternalFailed(Exception):
    """What an external system was asked to do has failed over there."""


def is_down(error: BaseException) -> bool:
    """Whether an error was raised because the other side could not be reached.

    Clients wrap what they met; it is looked for down the causes.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ExternalDown | ConnectionError | TimeoutError | socket.gaierror):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


class System(Protocol):
    """What Windlass asks of an external system."""

    def poll(self, handles: list[str]) -> dict[str, Answer]: ...

    def cancel(self, handle: str) -> None: ...


@dataclass(frozen=True)
class ExternalTerms:
    """How a kind is executed elsewhere. Times are microseconds."""

    system: System
    every: int
    timeout: int | None
    # How many handles are asked for at once.
    batch: int = 500

    def pause(self, polls: int) -> int:
        """How long to wait before asking again, after so many polls that brought nothing new."""
        return int(self.every * min(1 + polls / 4, MOST_BACKOFF))

    def pause_after_error(self, errors: int) -> int:
        """How long to wait before asking a system again that did not answer so often in a row."""
        return int(self.every * 2 ** min(errors, 6))
