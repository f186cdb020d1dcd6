"""The options of declarations: which there are, and their defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import (
    Any,
    Literal,
    Protocol,
    TypedDict,
    TypeVar,
    cast,
    get_type_hints,
    runtime_checkable,
)

from windlass.core.task.downstream import DownstreamOption
from windlass.core.task.many import ManyOptions
from windlass.errors import BadDeclaration
from windlass.value.bucket import LaneFunction, OnFailure
from windlass.value.calendar.window import Window
from windlass.value.cron import Schedule
from windlass.value.duration import Duration
from windlass.value.payload import Arguments
from windlass.value.period import Period
from windlass.value.retry import Backoff, Retries

F = TypeVar("F", bound=Callable[..., Any])


@runtime_checkable
class Via(Protocol):
    """Where the handlers of a kind run, if not in the worker: `via=` of a declaration."""

    @property
    def name(self) -> str:
        """What people call it: the name of the queue."""

    @property
    def address(self) -> str:
        """Where it is, without a password."""

    @property
    def carried_by(self) -> str:
        """The face whose loops carry the runs there."""


class CommonOptions(TypedDict, total=False):
    """The options that every kind has. `Options` has their defaults."""

    name: str | None
    timeout: Duration | None
    max_lost: int
    window: str | Window | None
    breaker: str | None
    late_after: Duration | None
    downstream: DownstreamOption
    group: str | None
    via: Via | None


class IsolateOptions(TypedDict, total=False):
    """The options of kinds whose handlers may run in a process of their own."""

    isolate: Literal["process"] | None
    memory: str | None


class PromiseOptions(TypedDict, total=False):
    """The option of kinds that promise to be done in time."""

    within: Duration | None


class RetryOptions(TypedDict, total=False):
    """The options of kinds whose runs are retried."""

    retries: Retries | None
    backoff: Backoff


class SpeedOptions(TypedDict, total=False):
    """The options of kinds with many rows."""

    concurrency: int | None
    total_concurrency: int | None
    rate: str | None


class LaneOptions(TypedDict, total=False):
    """The options of kinds whose rows run in lanes."""

    lane: LaneFunction | None
    per_lane: int
    on_failure: OnFailure
    fair: bool


# Why other declarations refuse the options of lanes.
NO_LANES = dict.fromkeys(
    LaneOptions.__annotations__, "only tasks have lanes, because their rows run once and then end"
)


class TaskOptions(
    CommonOptions,
    PromiseOptions,
    RetryOptions,
    SpeedOptions,
    LaneOptions,
    IsolateOptions,
    total=False,
):
    """The options of a task."""

    priority: int
    keep: Duration | None
    keep_failed: Duration | None
    finish_timeout: Duration
    logs: int


class CronOptions(CommonOptions, PromiseOptions, RetryOptions, IsolateOptions, total=False):
    """The options of a cron, beside its schedule."""

    priority: int
    finish_timeout: Duration
    logs: int


class ListTaskOptions(TaskOptions, ManyOptions, total=False):
    """The options of a task, with those of lists."""


@dataclass(frozen=True)
class Options:
    """The options of a declaration, as the user wrote them."""

    name: str | None = None
    retries: Retries | None = None
    backoff: Backoff = "2s"
    timeout: Duration | None = None
    concurrency: int | None = None
    rate: str | None = None
    priority: int = 0
    keep: Duration | None = None
    keep_failed: Duration | None = None
    max_lost: int = 3
    finish_timeout: Duration = "5s"
    window: str | Window | None = None
    breaker: str | None = None
    late_after: Duration | None = None
    group: str | None = None
    within: Duration | None = None
    downstream: DownstreamOption = None
    total_concurrency: int | None = None
    logs: int = 0
    lane: LaneFunction | None = None
    per_lane: int = 1
    on_failure: OnFailure = "hold"
    fair: bool = False
    via: Via | None = None
    many: int | None = None
    wait: Duration | None = None
    isolate: Literal["process"] | None = None
    memory: str | None = None
    schedule: Schedule | None = None
    period: Period | None = None
    face: str = "task"
    face_terms: Any = None
    has_rows: bool = True
    hands_over: bool = False
    # Raises if the face cannot call a handler with these parameters.
    check: Callable[[str, Arguments], None] | None = None


def takes(options: type, *, refused: Mapping[str, str] | None = None) -> Callable[[F], F]:
    """Show the names in `options` in the signature of a method, and refuse all other keywords.

    `refused` has options of other kinds, and what to write instead.
    """

    def decorate(method: F) -> F:
        given = inspect.signature(method)
        named = [each for each in given.parameters.values() if each.kind is not each.VAR_KEYWORD]
        listed = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=getattr(Options, name),
                annotation=annotation,
            )
            for name, annotation in get_type_hints(options).items()
        ]
        signature = given.replace(parameters=[*named, *listed])

        @wraps(method)
        def checked(*args: object, **kwargs: object) -> object:
            for option, cure in (refused or {}).items():
                if option in kwargs:
                    given = f"{option}={kwargs[option]!r}"
                    raise BadDeclaration(f"{method.__name__}: {given} is not an option; {cure}")
            signature.bind(*args, **kwargs)
            return method(*args, **kwargs)

        cast(Any, checked).__signature__ = signature
        return cast(F, checked)

    return decorate
