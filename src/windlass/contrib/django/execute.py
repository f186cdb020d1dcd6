"""Functions of Django's tasks framework as kinds, and how a worker runs them."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from traceback import format_exception
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.utils import timezone
from django.utils.module_loading import import_string

from windlass.contrib.django.begin import the_app
from windlass.contrib.django.framework import (
    Task,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_backends,
    task_finished,
    task_started,
)
from windlass.core.task.current import current
from windlass.core.task.declare import Task as Declared
from windlass.errors import BadDeclaration
from windlass.value.outcome import Failed, judge

DEFAULT_QUEUE = "default"

_lock = threading.RLock()
# By the name of the kind.
_declared: dict[str, Declared[Any, Any]] = {}
# By its path, a function with the alias of the backend that it was declared for.
_functions: dict[str, tuple[Any, str]] = {}
# The id and the attempt of a task that a test runs without a worker.
STAND_IN: ContextVar[tuple[int, int] | None] = ContextVar("windlass_stand_in", default=None)


def kind_name(path: str, queue: str) -> str:
    """The name of the kind of a function in a queue."""
    return path if queue == DEFAULT_QUEUE else f"{path}@{queue}"


def is_declared(kind: str) -> bool:
    """Whether a kind is a function of the framework; its module is imported if need be."""
    if kind in _declared:
        return True
    try:
        return isinstance(import_string(kind.partition("@")[0]), Task)
    except ImportError:
        return False


def declared(task: Any, backend: Any) -> Declared[Any, Any]:
    """The kind of a task, declared when it is first asked for."""
    path = task.module_path
    name = kind_name(path, task.queue_name)
    with _lock:
        if name not in _declared:
            options = {"group": task.queue_name, **backend.kind_options(path)}
            if options.get("isolate") is not None:
                raise BadDeclaration(
                    f"task {path!r}: functions of Django's tasks framework are not isolated; "
                    'declare it by @app.task(isolate="process") of windlass.contrib.django'
                )
            app = the_app()
            if declare_all not in app.before_worker:
                app.before_worker.append(declare_all)
            _functions.setdefault(path, (task.func, task.backend))
            handler = _handler(name, is_async=iscoroutinefunction(task.func))
            _declared[name] = app.task(name=name, **options)(handler)
        return _declared[name]


def declare_all() -> None:
    """Declare each known function in all queues of its backend: a worker serves them all."""
    for path, (_, alias) in list(_functions.items()):
        backend = task_backends[alias]
        task = import_string(path)
        for queue in sorted(backend.queues):
            if kind_name(path, queue) not in _declared:
                declared(task.using(queue_name=queue), backend)


def _handler(name: str, *, is_async: bool) -> Any:
    if is_async:

        async def awaited(args: list[Any], kwargs: dict[str, Any], about: dict[str, Any]) -> Any:
            execution = Execution(name, args, kwargs, about)
            with execution.observed() as call:
                return call.returned(await call.function(*call.args, **call.kwargs))

        return awaited

    def called(args: list[Any], kwargs: dict[str, Any], about: dict[str, Any]) -> Any:
        execution = Execution(name, args, kwargs, about)
        with execution.observed() as call:
            return call.returned(call.function(*call.args, **call.kwargs))

    return called


@dataclass
class FunctionCall:
    """The call of a task's function."""

    function: Any
    args: list[Any]
    kwargs: Mapping[str, Any]
    value: Any = None

    def returned(self, value: Any) -> Any:
        self.value = normalize_json(value)
        return self.value


@dataclass(frozen=True)
class Execution:
    """One task of the framework, as it was enqueued."""

    kind: str
    args: list[Any]
    kwargs: dict[str, Any]
    about: dict[str, Any]

    @classmethod
    def of(cls, kind: str, payload: Mapping[str, Any]) -> Execution:
        """From the row of the task."""
        return cls(kind, payload["args"], payload["kwargs"], payload["about"])

    @property
    def task(self) -> Any:
        about = self.about
        after = about["run_after"]
        return dataclasses.replace(
            import_string(self.kind.partition("@")[0]),
            priority=about["priority"],
            queue_name=about["queue_name"],
            backend=about["backend"],
            run_after=None if after is None else datetime.fromisoformat(after),
        )

    def result(self, **known: Any) -> Any:
        """The result object of the framework."""
        return TaskResult(
            task=self.task,
            args=self.args,
            kwargs=self.kwargs,
            backend=self.about["backend"],
            enqueued_at=datetime.fromisoformat(self.about["enqueued_at"]),
            **known,
        )

    @contextmanager
    def observed(self) -> Iterator[FunctionCall]:
        """The call of the function, with the signals of the framework around it."""
        number, attempt, worker = _where()
        now = timezone.now()
        result = self.result(
            id=str(number),
            status=TaskResultStatus.RUNNING,
            started_at=now,
            last_attempted_at=now,
            finished_at=None,
            errors=[],
            worker_ids=[worker] * attempt,
        )
        sender, task = type(task_backends[self.about["backend"]]), result.task
        first = [TaskContext(task_result=result)] if task.takes_context else []
        call = FunctionCall(task.func, [*first, *result.args], result.kwargs)
        task_started.send(sender=sender, task_result=result)
        try:
            yield call
        except BaseException as error:
            if _is_final(error):
                _set(result, status=TaskResultStatus.FAILED, finished_at=timezone.now())
                result.errors.append(_error_of(error))
                task_finished.send(sender, task_result=result)
            raise
        _set(result, status=TaskResultStatus.SUCCESSFUL, finished_at=timezone.now())
        _set(result, _return_value=call.value)
        task_finished.send(sender, task_result=result)


def _where() -> tuple[int, int, str]:
    """The id of the task that runs here, its attempt, and the worker."""
    run = current.get()
    if run is None:
        number, attempt = STAND_IN.get() or (0, 1)
        return number, attempt, "test"
    return run.task.id, run.task.attempt, str(run.task.worker)


def _is_final(error: BaseException) -> bool:
    """Whether the task has failed for good: no retry is left."""
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
        # The worker lost the task, or ends: it runs again.
        return False
    run = current.get()
    if run is None:
        return True
    return isinstance(judge(error, run.kind.terms, tries=run.task.tries, random=0.0), Failed)


def _error_of(error: BaseException) -> Any:
    kind = type(error)
    return TaskError(
        exception_class_path=f"{kind.__module__}.{kind.__qualname__}",
        traceback="".join(format_exception(error)),
    )


def _set(result: Any, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(result, name, value)
