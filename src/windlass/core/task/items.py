"""The handle of a declared task whose handler takes lists: each task is one item."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar, cast, overload

from windlass.core.task.declare import Enqueue, How, OnConflict, OnPast, TaskApp, TaskRef
from windlass.core.task.kind import Kind
from windlass.errors import Cancel, Overloaded, Retry, Snooze
from windlass.value.duration import Duration

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")


class EnqueueItem(Generic[I, R]):
    """Enqueues items of a kind whose handler takes lists, with the options of `using`."""

    def __init__(self, app: TaskApp, kind: Kind, how: How) -> None:
        self._app = app
        self._kind = kind
        self._one: Enqueue[[I], R] = Enqueue(app, kind, how)

    def enqueue(self, item: I, /) -> TaskRef[R]:
        """Write a durable task with one item. The handler gets it in a list with others."""
        return self._one.enqueue(item)

    async def aenqueue(self, item: I, /) -> TaskRef[R]:
        """`enqueue`, awaited; `conn` may also be async."""
        return await self._one.aenqueue(item)

    def enqueue_many(
        self, items: Iterable[I], *, keys: Iterable[str] | None = None
    ) -> list[TaskRef[R]]:
        """Enqueue many items, each as a task, in one transaction: all or none.

        `keys` has the key of each item, in the same order.
        """
        given = cast(Iterable[Any], items)
        return self._one.enqueue_many(given, keys=keys)

    async def aenqueue_many(
        self, items: Iterable[I], *, keys: Iterable[str] | None = None
    ) -> list[TaskRef[R]]:
        """`enqueue_many`, awaited."""
        given = cast(Iterable[Any], items)
        return await self._one.aenqueue_many(given, keys=keys)

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
    ) -> EnqueueItem[I, R]:
        """The same kind, enqueued with these options, which are those of every task."""
        how = self._one.using(
            key=key,
            lane=lane,
            delay=delay,
            at=at,
            priority=priority,
            conn=conn,
            on_conflict=on_conflict,
            on_past=on_past,
        ).how
        return EnqueueItem(self._app, self._kind, how)


class ListTask(EnqueueItem[I, R]):
    """A declared task whose handler takes lists. Calling it calls the function directly."""

    def __init__(self, app: TaskApp, kind: Kind) -> None:
        super().__init__(app, kind, How())
        functools.update_wrapper(cast(Any, self), kind.function)

    @property
    def kind(self) -> str:
        """The name of its kind."""
        return self._kind.name

    def __call__(self, items: list[I], /) -> Any:
        function = cast(Callable[[list[I]], Any], self._kind.function)
        return function(items)

    def __repr__(self) -> str:
        return f"<task {self._kind.name!r}>"


# What a handler may answer for an item that did not succeed.
Answer = Retry | Cancel | Snooze | Overloaded | Exception


class ListDeclarer(Protocol):
    """Declares a function that takes lists; the result of an item is what it answers for it."""

    @overload
    def __call__(self, function: Callable[[list[I]], None], /) -> ListTask[I, None]: ...

    @overload
    def __call__(
        self, function: Callable[[list[I]], Coroutine[Any, Any, None]], /
    ) -> ListTask[I, None]: ...

    @overload
    def __call__(
        self,
        function: Callable[[list[I]], Coroutine[Any, Any, Sequence[R | Answer] | None]],
        /,
    ) -> ListTask[I, R]: ...

    @overload
    def __call__(
        self, function: Callable[[list[I]], Sequence[R | Answer] | None], /
    ) -> ListTask[I, R]: ...
