"""A backend for Django's own tasks framework: `django.tasks`, or its backport `django_tasks`.

    TASKS = {"default": {"BACKEND": "windlass.contrib.django.backend.WindlassBackend"}}

A decorated function is a kind, named by its path; in another queue than "default" it is the kind
`path@queue`. So each has a switch, limits and statistics of its own. Workers import the modules
that the setting `MODULES` names, and find the functions there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.core.checks import Error
from django.utils import timezone

from windlass.clock import to_datetime
from windlass.contrib.django.begin import the_app
from windlass.contrib.django.execute import Execution, declared, is_declared
from windlass.contrib.django.framework import (
    BaseTaskBackend,
    InvalidTask,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)
from windlass.contrib.django.models import Failure, Task
from windlass.errors import BadDeclaration, WindlassError
from windlass.value.status import Status

STATES = {
    Status.WAITING: TaskResultStatus.READY,
    Status.BLOCKED: TaskResultStatus.READY,
    Status.RUNNING: TaskResultStatus.RUNNING,
    Status.EXTERNAL: TaskResultStatus.RUNNING,
    Status.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    Status.FAILED: TaskResultStatus.FAILED,
    Status.CANCELLED: TaskResultStatus.FAILED,
}
# A result can be asked for so long.
KEEP = "1d"
UNKNOWN_WORKER = "unknown"
# The line of a traceback that names the class of the error.
ERROR = re.compile(r"^(?P<path>[A-Za-z_][\w.]*)(?::|$)")


class WindlassBackend(BaseTaskBackend):
    """Django's tasks as tasks of Windlass, in the database of the project.

    `enqueue` is part of the transaction that is open. OPTIONS are those of a task, such as
    `retries` and `keep`; "KINDS" has more of them for single functions, by their path.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: Any) -> None:
        super().validate_task(task)
        try:
            declared(task, self)
        except BadDeclaration as problem:
            raise InvalidTask(str(problem)) from problem

    def kind_options(self, path: str) -> dict[str, Any]:
        """The options of the kind of a function."""
        own = dict(self.options)
        chosen = own.pop("KINDS", {}).get(path, {})
        return {"keep": KEEP, **own, **chosen}

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self.validate_task(task)
        result = TaskResult(
            task=task,
            id="",
            status=TaskResultStatus.READY,
            enqueued_at=timezone.now(),
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=list(args),
            kwargs=dict(kwargs),
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        options: dict[str, Any] = {"priority": task.priority}
        if task.run_after is not None:
            options["at"] = _aware(task.run_after)
        handle = declared(task, self).using(**options)
        ref = handle.enqueue(result.args, result.kwargs, _about(result))
        object.__setattr__(result, "id", str(ref.id))
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        row = None
        if str(result_id).isdecimal():
            # By Django's connection: a task is seen in the transaction that has enqueued it.
            rows = Task.objects.using(the_app().alias)
            row = rows.filter(pk=int(result_id)).first()
        if row is None or not is_declared(row.kind):
            raise TaskResultDoesNotExist(result_id)
        return self._result_of(row)

    def _result_of(self, row: Any) -> Any:
        execution = Execution.of(row.kind, row.payload)
        errors = Failure.objects.using(the_app().alias).filter(task_id=row.id)
        failures = list(errors.order_by("id"))
        status = Status(row.status)
        result = execution.result(
            id=str(row.id),
            status=STATES[status],
            started_at=_moment(row.started_at),
            last_attempted_at=_moment(row.started_at),
            finished_at=_moment(row.finished_at),
            errors=[_error_of(each) for each in failures],
            worker_ids=_workers(row, failures),
        )
        object.__setattr__(result, "_return_value", row.result)
        return result

    def check(self, **_: Any) -> list[Any]:
        from django.apps import apps

        if not apps.is_installed("windlass.contrib.django"):
            text = "add 'windlass.contrib.django' to INSTALLED_APPS"
            return [Error(text, id="windlass.E004")]
        try:
            the_app()
        except WindlassError as problem:
            return [Error(str(problem), id="windlass.E001")]
        return []


def _about(result: Any) -> dict[str, Any]:
    """What is kept of a task beside its arguments."""
    task = result.task
    return {
        "enqueued_at": result.enqueued_at.isoformat(),
        "run_after": None if task.run_after is None else task.run_after.isoformat(),
        "priority": task.priority,
        "queue_name": task.queue_name,
        "backend": task.backend,
    }


def _aware(moment: datetime) -> datetime:
    return moment if timezone.is_aware(moment) else timezone.make_aware(moment)


def _moment(given: int | None) -> datetime | None:
    return None if given is None else to_datetime(given)


def _error_of(failure: Any) -> Any:
    trace = failure.trace if failure.trace.endswith("\n") else f"{failure.trace}\n"
    return TaskError(exception_class_path=exception_path(trace), traceback=trace)


def _workers(row: Any, failures: Sequence[Any]) -> list[str]:
    """The worker of each attempt; of one that was lost with its worker nobody has written it."""
    found = [str(each.worker) for each in failures]
    if len(found) < row.attempt and row.worker is not None:
        found.append(str(row.worker))
    missing = row.attempt - len(found)
    return [UNKNOWN_WORKER] * missing + found if missing > 0 else found


def exception_path(trace: str) -> str:
    """The path of the class of the last error in a traceback: `builtins.ValueError`."""
    for line in reversed(_last_part(trace).splitlines()):
        if (found := ERROR.match(line)) is not None:
            path = found["path"]
            return path if "." in path else f"builtins.{path}"
    return "builtins.Exception"


def _last_part(trace: str) -> str:
    """From the last frame on: the message of an error may have many lines."""
    lines = trace.splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith("  ")]
    first = frames[-1] + 1 if frames else 0
    # The first line below the frames names the class.
    return "\n".join(lines[first : first + 1]) or trace
