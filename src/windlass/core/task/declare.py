"""The handle of a declared task, and the handle of a task that was enqueued."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, Literal, ParamSpec, Protocol, cast, overload

import msgspec
from typing_extensions import TypeVar

from windlass.clock import from_datetime
from windlass.core.task.kind import Kind, check_may_have_lanes
from windlass.errors import (
    BadArgument,
    BadInput,
    ResultTimeout,
    TaskCancelled,
    TaskFailed,
    TaskNotFound,
)
from windlass.value.bucket import check_lane
from windlass.value.duration import Duration, parse_duration, seconds_of
from windlass.value.payload import Carrier
from windlass.value.status import Status
from windlass.value.task import Call, TaskView, check_key, check_priority
from windlass.value.twin import awaited

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
# What the handler returns; plain `TaskRef` in users' annotations says nothing about it.
ResultT = TypeVar("ResultT", default=Any)

OnConflict = Literal["skip", "raise", "replace"]
CONFLICTS = ("skip", "raise", "replace")
OnPast = Literal["run", "raise"]

# How long a caller that waits for a result pauses between two looks, in seconds.
FIRST_PAUSE = 0.005
LONGEST_PAUSE = 0.25


@dataclass(frozen=True)
class How:
    """How to enqueue: all options that are not arguments of the handler."""

    key: str | None = None
    lane: str | None = None
    delay: int | None = None
    at: int | None = None
    priority: int | None = None
    conn: object = None
    on_conflict: OnConflict = "skip"
    on_past: OnPast = "run"
    # The context of the caller, if it is traced.
    trace: Carrier | None = None

    def changed(
        self,
        name: str,
        *,
        what: str,
        key: str | None,
        delay: Duration | None,
        at: datetime | None,
        priority: int | None,
        conn: object,
        on_past: OnPast | None,
    ) -> How:
        """These options, changed by what is given; errors begin with `what`."""
        how = self
        if key is not None:
            how = replace(how, key=check_key(name, key))
        if delay is not None and at is not None:
            raise BadInput(f"{what}: give delay or at, not both")
        if delay is not None:
            waiting = parse_duration(delay, what=f"{what}: delay", zero=True)
            how = replace(how, delay=waiting, at=None)
        if at is not None:
            how = replace(how, at=_moment(what, at), delay=None)
        if on_past is not None:
            if on_past not in ("run", "raise"):
                raise BadInput(f'{what}: on_past={on_past!r} is not one of "run", "raise"')
            how = replace(how, on_past=on_past)
        if priority is not None:
            how = replace(how, priority=check_priority(name, priority))
        return how if conn is None else replace(how, conn=conn)


class TaskApp(Protocol):
    """What a handle needs of the app."""

    def submit(self, kind: Kind, calls: Sequence[Call], how: How) -> list[TaskRef[Any]]: ...
    async def asubmit(self, kind: Kind, calls: Sequence[Call], how: How) -> list[TaskRef[Any]]: ...
    def find(self, task_id: int) -> TaskView | None: ...
    def cancel(self, task_id: int, *, reason: str) -> bool: ...


class TaskRef(Generic[ResultT]):
    """A task that was enqueued; `ResultT` is what its handler returns.

    `created` is False if it was there already: by its key, or by its id.
    """

    __slots__ = ("_app", "_kind", "_known_until", "created", "id")

    def __init__(
        self,
        app: TaskApp,
        number: int,
        kind: Kind | None,
        known_until: float = 0.0,
        *,
        created: bool = False,
    ) -> None:
        self._app = app
        self._kind = kind
        # Until this monotonic time, a row that is gone can only have succeeded.
        self._known_until = known_until
        self.created = created
        self.id = number

    @property
    def _enqueued(self) -> bool:
        return time.monotonic() < self._known_until

    def status(self) -> Status:
        """The status of the task now. A successful task that was not kept is succeeded, too."""
        found = self._find(enqueued=self._enqueued)
        return Status.SUCCEEDED if found is None else found.status

    def result(self, timeout: Duration | float | None = None) -> ResultT:
        """Wait until the task has ended, and return its result.

        Raises TaskFailed, TaskCancelled, or ResultTimeout after `timeout` (seconds or "5s").
        """
        deadline = None if timeout is None else time.monotonic() + seconds_of(timeout)
        enqueued, pause = self._enqueued, FIRST_PAUSE
        while True:
            found = self._find(enqueued=enqueued)
            if found is None or found.status is Status.SUCCEEDED:
                return self._result_of(found)
            if found.status is Status.FAILED:
                raise TaskFailed(self.id, found.remark or "no reason recorded")
            if found.status is Status.CANCELLED:
                raise TaskCancelled(self.id, found.remark or "")
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise ResultTimeout(
                    f"task {self.id} is still {found.status} after {seconds_of(timeout or 0):g} s; "
                    "is a worker running?"
                )
            time.sleep(pause if left is None else min(pause, left))
            pause = min(pause * 1.5, LONGEST_PAUSE)

    def cancel(self, reason: str = "") -> bool:
        """Cancel the task; False if it had already ended.

        A running async handler is stopped within about two seconds, and so is a handler in a
        process of its own. Another sync handler cannot be stopped, but its outcome is refused.
        """
        return self._app.cancel(self.id, reason=reason)

    astatus = awaited(status)
    aresult = awaited(result)
    acancel = awaited(cancel)

    def _find(self, *, enqueued: bool) -> TaskView | None:
        """Its row; None if the row is gone because it succeeded."""
        found = self._app.find(self.id)
        if found is None and not enqueued:
            raise TaskNotFound(self.id)
        return found

    def _result_of(self, found: TaskView | None) -> ResultT:
        if found is None or found.result is None:
            return cast(ResultT, None)
        decode = msgspec.json.decode if self._kind is None else self._kind.decode_result
        return cast(ResultT, decode(found.result))

    def __repr__(self) -> str:
        return f"TaskRef({self.id}{'' if self._kind is None else f', {self._kind.name!r}'})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskRef) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


class Enqueue(Generic[P, R_co]):
    """Enqueues a kind, with the options of `using`."""

    def __init__(self, app: TaskApp, kind: Kind, how: How) -> None:
        self._app = app
        self._kind = kind
        self._how = how

    @overload
    def enqueue(
        self: Enqueue[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> TaskRef[T]: ...

    @overload
    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskRef[R_co]: ...

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskRef[Any]:
        """Write a durable task that calls the handler with these arguments."""
        return self._app.submit(self._kind, [self._call(args, kwargs)], self._how)[0]

    @overload
    async def aenqueue(
        self: Enqueue[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> TaskRef[T]: ...

    @overload
    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskRef[R_co]: ...

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskRef[Any]:
        """`enqueue`, awaited; `conn` may also be async."""
        return (await self._app.asubmit(self._kind, [self._call(args, kwargs)], self._how))[0]

    @overload
    def enqueue_many(
        self: Enqueue[P, Coroutine[Any, Any, T]],
        calls: Iterable[Mapping[str, Any]],
        *,
        keys: Iterable[str] | None = None,
    ) -> list[TaskRef[T]]: ...

    @overload
    def enqueue_many(
        self, calls: Iterable[Mapping[str, Any]], *, keys: Iterable[str] | None = None
    ) -> list[TaskRef[R_co]]: ...

    def enqueue_many(
        self, calls: Iterable[Mapping[str, Any]], *, keys: Iterable[str] | None = None
    ) -> list[TaskRef[Any]]:
        """Enqueue many calls, each a mapping of arguments, in one transaction: all or none.

        `keys` has the key of each call, in the same order.
        """
        made = self._calls(calls, keys)
        return self._app.submit(self._kind, made, self._how) if made else []

    @overload
    async def aenqueue_many(
        self: Enqueue[P, Coroutine[Any, Any, T]],
        calls: Iterable[Mapping[str, Any]],
        *,
        keys: Iterable[str] | None = None,
    ) -> list[TaskRef[T]]: ...

    @overload
    async def aenqueue_many(
        self, calls: Iterable[Mapping[str, Any]], *, keys: Iterable[str] | None = None
    ) -> list[TaskRef[R_co]]: ...

    async def aenqueue_many(
        self, calls: Iterable[Mapping[str, Any]], *, keys: Iterable[str] | None = None
    ) -> list[TaskRef[Any]]:
        """`enqueue_many`, awaited."""
        made = self._calls(calls, keys)
        return await self._app.asubmit(self._kind, made, self._how) if made else []

    def using(
        self,
        *,
        key: str | None = None,
        lane: str | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        conn: object = None,
        on_conflict: OnConflict | None = None,
        on_past: OnPast | None = None,
    ) -> Enqueue[P, R_co]:
        """The same kind, enqueued with these options.

        `key` is unique within the kind. If a task has it already, `on_conflict="skip"` returns that
        task, "raise" raises DuplicateKey, and "replace" replaces the task unless it is running.
        `delay` or `at` says when to start; a moment that has passed starts it at once, or raises
        PastTime with `on_past="raise"`. `conn` joins the caller's transaction. Tasks of one
        `lane` run in the order of their due times, at most `per_lane` of them at once.
        """
        name, what = self._kind.name, f"kind {self._kind.name!r}"
        how = self._how.changed(
            name,
            what=what,
            key=key,
            delay=delay,
            at=at,
            priority=priority,
            conn=conn,
            on_past=on_past,
        )
        if on_conflict is not None:
            if on_conflict not in CONFLICTS:
                raise BadInput(
                    f'{what}: on_conflict={on_conflict!r} is not one of "skip", "raise", "replace"'
                )
            how = replace(how, on_conflict=on_conflict)
        if lane is not None:
            how = replace(how, lane=check_lane(name, lane))
            check_may_have_lanes(self._kind)
        return Enqueue(self._app, self._kind, how)

    @property
    def how(self) -> How:
        """Its options."""
        return self._how

    def _call(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Call:
        return Call(args, kwargs, self._how.key)

    def _calls(self, calls: Iterable[Mapping[str, Any]], keys: Iterable[str] | None) -> list[Call]:
        name = self._kind.name
        if self._how.key is not None:
            raise BadInput(
                f"kind {name!r}: many tasks cannot have one key; give enqueue_many keys=[...]"
            )
        if isinstance(calls, Mapping | str | bytes):
            raise BadArgument(
                f"kind {name!r}: enqueue_many takes a list of mappings, one for each task",
                kind=name,
            )
        arguments = list(calls)
        if self._kind.many is not None:
            return self._with_keys([Call((item,), {}, None) for item in arguments], keys)
        for given in arguments:
            if type(given) is not dict and not isinstance(given, Mapping):
                raise BadArgument(
                    f"kind {name!r}: {given!r} is not a mapping of arguments; "
                    'write {"name": value, ...}',
                    kind=name,
                )
        return self._with_keys([Call((), given, None) for given in arguments], keys)

    def _with_keys(self, calls: list[Call], keys: Iterable[str] | None) -> list[Call]:
        name = self._kind.name
        if keys is None:
            return calls
        named = [check_key(name, key) for key in keys]
        if len(named) != len(calls):
            raise BadInput(
                f"kind {name!r}: {len(named)} keys for {len(calls)} tasks; give one for each"
            )
        return [call._replace(key=key) for call, key in zip(calls, named, strict=True)]


class Task(Enqueue[P, R_co]):
    """A declared task. Calling it calls the function directly."""

    def __init__(self, app: TaskApp, kind: Kind) -> None:
        super().__init__(app, kind, How())
        functools.update_wrapper(cast(Any, self), kind.function)

    @property
    def kind(self) -> str:
        """The name of its kind."""
        return self._kind.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        function = cast(Callable[P, R_co], self._kind.function)
        return function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self._kind.name!r}>"


def _moment(what: str, at: object) -> int:
    if not isinstance(at, datetime):
        raise BadInput(f"{what}: at={at!r} is not a datetime")
    if at.tzinfo is None:
        raise BadInput(
            f"{what}: at={at} has no time zone; write datetime(..., tzinfo=...) "
            "or datetime.now(UTC) + ..."
        )
    return from_datetime(at)
