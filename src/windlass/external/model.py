"""What external systems are: what users write, what they answer, and how often they are polled."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from windlass.core.task.kind import Kind
from windlass.errors import BadDeclaration, BadInput, NoContext
from windlass.value.task import is_storable

# What a submission is: the current one of its task, one that failed, one that was dropped.
CURRENT = 0
FAILED_THERE = 1
DROPPED = 2
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
    kind: str
    secret: str = field(repr=False)
    # The number of this try since the task was enqueued, or retried by an operator.
    tries: int
    began_at: int
    past: int
    polls: int
    handle: str | None = None
    # How it ended, if the system said that before the handle was stored.
    told: str | None = None
    # Whether the system has refused it and will not accept it later.
    is_over: bool = False

    @property
    def is_past(self) -> bool:
        return self.past != CURRENT

    @property
    def name(self) -> str:
        """The id for the external system; it is the same when the submission is repeated."""
        return str(self.task_id) if self.number == 1 else f"{self.task_id}-{self.number}"


class External(ABC):
    """A system that executes work elsewhere. Subclass it, and give it to `app.external`.

    `submit` takes the arguments of the task and returns a handle. It is called again for the same
    task if a worker died before the handle was stored: `context().submission` is then the same, and
    the system must treat the two calls as one. `submit` raises `ExternalFailed` if the system
    refuses the job and will not accept it later.
    """

    def __init_subclass__(cls) -> None:
        if not hasattr(cls, "submit"):
            raise BadDeclaration(
                f"{cls.__name__} has no submit; write def submit(self, ...) -> str"
            )

    @abstractmethod
    def poll(self, handles: list[str]) -> dict[str, Answer]:
        """The state of each handle. A handle that is left out is still running."""

    def cancel(self, handle: str) -> None:
        """Stop a job, if the system can. By default nothing is stopped.

        A worker calls this soon after a task was cancelled or skipped, or has timed out. If it
        raises, it is called again a few times.
        """
        del handle


@dataclass(frozen=True)
class ExternalTerms:
    """How an external kind is submitted and polled. Times are microseconds."""

    system: External
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
    return isinstance(given, str) and 0 < len(given) <= LONGEST_HANDLE and is_storable(given)


def submit_of(name: str, system: object) -> Callable[..., Any]:
    """The `submit` of a system; raises BadDeclaration if a method is missing or async."""
    submit = getattr(system, "submit", None)
    if not callable(submit) or not callable(getattr(system, "poll", None)):
        raise BadDeclaration(
            f"external {name!r}: {system!r} has no submit and poll; subclass windlass.External"
        )
    calls = (getattr(system, call, None) for call in ("submit", "poll", "cancel"))
    if any(map(inspect.iscoroutinefunction, calls)):
        raise BadDeclaration(
            f"external {name!r}: submit, poll and cancel run on threads; write them as plain def"
        )
    return cast(Callable[..., Any], submit)
