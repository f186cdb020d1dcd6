"""External systems: what they answer when they are asked, and how often they are asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from windlass.errors import BadInput, NoContext

LONGEST_HANDLE = 255
MOST_BACKOFF = 5
MOST_BATCH = 10_000
# What is raised by mistakes in `submit` itself: doing it again would only raise it again.
MISTAKES = (
    TypeError,
    AttributeError,
    NameError,
    LookupError,
    NotImplementedError,
    NoContext,
    BadInput,
)


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


@dataclass(frozen=True)
class Submission:
    """One of the times that a task is handed to its system."""

    task_id: int
    number: int
    secret: str = field(repr=False)
    # Which try it is since the task was enqueued, or retried by hand.
    tries: int
    began_at: int
    handle: str | None = None
    # Whether the system has refused it for good.
    is_over: bool = False

    @property
    def name(self) -> str:
        """By what the system knows it: the same if it is repeated."""
        return str(self.task_id) if self.number == 1 else f"{self.task_id}-{self.number}"


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
    # How long one call of the system may take.
    call_timeout: int
    # How many handles are asked for at once.
    batch: int = 500

    def is_late(self, began_at: int, now: int) -> bool:
        """Whether the time of what began then is out."""
        return self.timeout is not None and now - began_at > self.timeout

    def pause(self, polls: int) -> int:
        """How long to wait before asking again, after so many polls that brought nothing new."""
        return int(self.every * min(1 + polls / 4, MOST_BACKOFF))

    def pause_after_error(self, errors: int) -> int:
        """How long to wait before asking a system again that did not answer so often in a row."""
        return int(self.every * 2 ** min(errors, 6))


def is_handle(given: object) -> bool:
    """Whether `given` can be the handle of something: text that every database can store."""
    if not isinstance(given, str) or not 0 < len(given) <= LONGEST_HANDLE or "\x00" in given:
        return False
    try:
        given.encode()
    except UnicodeEncodeError:
        return False
    return True
