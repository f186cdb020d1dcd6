"""What external systems answer when they are polled, and how often they are polled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from windlass.core.task.kind import Kind
from windlass.errors import BadInput, NoContext

LONGEST_HANDLE = 255
MOST_BACKOFF = 5
MOST_BATCH = 10_000
# Mistakes in the code of `submit`: a repetition would only raise them again.
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
    """The task is not done yet."""


@dataclass(frozen=True, slots=True)
class Done:
    """The task is done, with this result."""

    result: object = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The task failed in the external system."""

    reason: str = "the external system says that it failed"


Answer = Running | Done | Failed


@dataclass(frozen=True)
class Submission:
    """One submission of a task to its system."""

    task_id: int
    number: int
    secret: str = field(repr=False)
    # The number of this try since the task was enqueued, or retried by an operator.
    tries: int
    began_at: int
    handle: str | None = None
    # Whether the system has refused it and will not accept it later.
    is_over: bool = False

    @property
    def name(self) -> str:
        """The id for the external system; it is the same when the submission is repeated."""
        return str(self.task_id) if self.number == 1 else f"{self.task_id}-{self.number}"


class System(Protocol):
    """What Windlass calls of an external system."""

    def poll(self, handles: list[str]) -> dict[str, Answer]: ...

    def cancel(self, handle: str) -> None: ...


@dataclass(frozen=True)
class ExternalTerms:
    """How an external kind is submitted and polled. Times are microseconds."""

    system: System
    every: int
    timeout: int | None
    # How long one call may take.
    call_timeout: int
    # How many handles are polled in one call.
    batch: int = 500

    def is_late(self, began_at: int, now: int) -> bool:
        """Whether a submission that began then has timed out."""
        return self.timeout is not None and now - began_at > self.timeout

    def pause(self, polls: int) -> int:
        """How long to wait before the next poll, after `polls` polls without news."""
        return int(self.every * min(1 + polls / 4, MOST_BACKOFF))

    def pause_after_error(self, errors: int) -> int:
        """How long to wait before the next call, after `errors` failed calls in a row."""
        return int(self.every * 2 ** min(errors, 6))


def is_external(kind: Kind) -> bool:
    """Whether another system executes a kind."""
    return isinstance(kind.face_terms, ExternalTerms)


def terms_of(kind: Kind) -> ExternalTerms:
    """How an external kind is submitted and polled."""
    assert isinstance(kind.face_terms, ExternalTerms)
    return kind.face_terms


def is_handle(given: object) -> bool:
    """Whether `given` can be a handle: text that every database can store."""
    if not isinstance(given, str) or not 0 < len(given) <= LONGEST_HANDLE or "\x00" in given:
        return False
    try:
        given.encode()
    except UnicodeEncodeError:
        return False
    return True
