"""The routes of tasks: find them, show one, retry and cancel them, one or many; and new ones."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field, StrictInt

from windlass.clock import SECOND, from_datetime
from windlass.errors import BadInput
from windlass.operate.task import form, operate, produce
from windlass.operate.task.form import FormView
from windlass.operate.task.operate import Bulk, TaskDetail, TaskListing, TaskLogs
from windlass.operate.task.produce import NewCall, NewWork
from windlass.operate.task.wait import TaskResult
from windlass.value.duration import parse_duration
from windlass.value.status import Status
from windlass.value.task import PRIORITIES, TaskFilter, TaskView
from windlass.view.action import Action
from windlass.web.problem import problems
from windlass.web.request import KindName, ReadyConsole, RequestLog, RequestOnce
from windlass.web.view import (
    STORABLE,
    ActionResult,
    Code,
    JsonObject,
    Reason,
    RequestBody,
    View,
    When,
    answer,
    shown_as,
)

router = APIRouter(tags=["tasks"])

MOST_LISTED = 500
StatusText = Literal[
    "waiting", "running", "succeeded", "failed", "blocked", "external", "cancelled"
]
# Those of items that a trigger made are negative.
TaskId = Annotated[int, Path(ge=-(2**63), le=2**63 - 1)]
TASKS = answer(
    TaskListing[TaskView], name="TaskLine", without=("bucket", "batch", "payload", "result")
)
KindText = Annotated[str, Field(min_length=1, max_length=100, pattern=STORABLE)]


MOST_NEW = 1_000
LONGEST_WAIT = 60 * SECOND
# Longer ones than can be are refused with the words of the call itself.
KeyText = Annotated[str, Field(max_length=1_000)]
Priority = Annotated[StrictInt, Field(ge=PRIORITIES.start, le=PRIORITIES.stop - 1)]
DelayText = Annotated[str, Field(max_length=50, description="How long it waits, such as 5m.")]
Wait = Annotated[
    str,
    Query(max_length=20, description="Wait so long for its end, at most 60s.", examples=["20s"]),
]


class NewTaskOptions(RequestBody):
    """What can be said of new tasks: those of `using` in Python, by the same names."""

    kind: KindText
    lane: KeyText | None = None
    delay: DelayText | None = None
    at: When | None = None
    priority: Priority | None = None
    on_conflict: Literal["skip", "raise", "replace"] | None = None
    on_past: Literal["run", "raise"] | None = None

    @property
    def work(self) -> NewWork:
        return NewWork(
            kind=self.kind,
            lane=self.lane,
            delay=self.delay,
            at=self.at,
            priority=self.priority,
            on_conflict=self.on_conflict,
            on_past=self.on_past,
        )


class TaskNew(NewTaskOptions):
    """One task: its kind, its arguments by name, and its key if it has one."""

    model_config = shown_as(
        {
            "kind": "send_mail",
            "arguments": {"to": "ada@example.com"},
            "key": "order-7",
            "delay": "5m",
        }
    )

    arguments: JsonObject = Field(default_factory=dict)
    key: KeyText | None = None


class TaskItem(RequestBody):
    """One of many tasks."""

    arguments: JsonObject = Field(default_factory=dict)
    key: KeyText | None = None


class TasksNew(NewTaskOptions):
    """Many tasks of a kind, written together or not at all; all of them have a key, or none."""

    model_config = shown_as(
        {
            "kind": "send_mail",
            "tasks": [
                {"arguments": {"to": "ada@example.com"}, "key": "order-7"},
                {"arguments": {"to": "ben@example.com"}, "key": "order-8"},
            ],
        }
    )

    tasks: Annotated[list[TaskItem], Field(min_length=1, max_length=MOST_NEW)]


class TaskMade(View):
    """A task; `created` is false if one was there already, by its key."""

    id: int
    created: bool


class TasksMade(View):
    """The tasks, in the order of the request."""

    tasks: list[TaskMade]


class CancelTask(RequestBody):
    """Why, for the people who read it later."""

    reason: Reason = ""


class TaskFilterBody(RequestBody):
    """Which tasks. The status is required, to prevent acting on everything by accident."""

    status: StatusText
    kind: KindText | None = None
    key: Code | None = None
    created_after: When | None = None
    created_before: When | None = None

    @property
    def wanted(self) -> TaskFilter:
        return _filter(self.kind, self.status, self.key, (self.created_after, self.created_before))

    @property
    def told(self) -> dict[str, object]:
        """The filter, for the audit log."""
        return {"filter": self.model_dump(mode="json", exclude_none=True)}


class BulkRetry(TaskFilterBody):
    """Which failed or cancelled tasks to let run again; `next` goes on where a call ended."""

    status: Literal["failed", "cancelled"]
    next: Annotated[str, Field(max_length=200)] | None = None


class BulkCancel(TaskFilterBody):
    """Which tasks to end; `next` goes on where a call ended."""

    status: Literal["waiting", "running", "external"]
    reason: Reason = ""
    next: Annotated[str, Field(max_length=200)] | None = None


@router.get("/tasks", response_model=TASKS)
def tasks(
    console: ReadyConsole,
    kind: Annotated[str | None, Query(max_length=100, pattern=STORABLE)] = None,
    status: StatusText | None = None,
    key: Annotated[str | None, Query(max_length=255, pattern=STORABLE)] = None,
    created_after: When | None = None,
    created_before: When | None = None,
    after: Annotated[str | None, Query(max_length=200, pattern=STORABLE)] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 50,
) -> TaskListing[TaskView]:
    """Tasks that match, newest first; `after` is the `next` of the page before."""
    wanted = _filter(kind, status, key, (created_after, created_before))
    return operate.page(console.app.fleet, wanted, after=after, limit=limit)


@router.get("/tasks/{number}", responses=problems(404), response_model=answer(TaskDetail))
def task(number: TaskId, console: ReadyConsole) -> TaskDetail:
    """One task, with its arguments, its result and its last errors."""
    return operate.show(console.app.fleet, console.app.registry, number)


@router.post("/tasks", responses=problems(404, 409))
def enqueue(body: TaskNew, console: ReadyConsole, log: RequestLog, once: RequestOnce) -> TaskMade:
    """Write a task."""
    app, work, calls = console.app, body.work, [NewCall(body.arguments, body.key)]

    def write(conn: object) -> TaskMade:
        (ref,) = produce.enqueue(app, work, calls, conn=conn)
        return TaskMade(id=ref.id, created=ref.created)

    with log.record(Action.TASK_ENQUEUE, body.kind, key=body.key, delay=body.delay) as entry:
        made = once.answer(TaskMade, write, **produce.place_of(app, work, calls)._asdict())
        entry.says(f"task {made.id} {'is enqueued' if made.created else 'had the key already'}")
    return made


@router.post("/tasks/many", responses=problems(404, 409))
def enqueue_many(
    body: TasksNew, console: ReadyConsole, log: RequestLog, once: RequestOnce
) -> TasksMade:
    """Write up to 1,000 tasks of a kind in one transaction: all or none."""
    app, work = console.app, body.work
    calls = [NewCall(each.arguments, each.key) for each in body.tasks]

    def write(conn: object) -> TasksMade:
        refs = produce.enqueue(app, work, calls, conn=conn)
        return TasksMade(tasks=[TaskMade(id=ref.id, created=ref.created) for ref in refs])

    with log.record(Action.TASK_ENQUEUE, body.kind, tasks=len(calls), delay=body.delay) as entry:
        made = once.answer(TasksMade, write, **produce.place_of(app, work, calls)._asdict())
        entry.says(f"{sum(each.created for each in made.tasks):,} tasks are enqueued")
    return made


@router.get(
    "/tasks/{number}/result", responses=problems(404, 409), response_model=answer(TaskResult)
)
async def result(number: TaskId, console: ReadyConsole, wait: Wait = "0s") -> TaskResult:
    """How a task ended; with `wait` the answer comes when it has ended, or after so long."""
    seconds = parse_duration(wait, what="wait", zero=True)
    if seconds > LONGEST_WAIT:
        raise BadInput(f"wait={wait!r} is too long; give at most 60s, and ask again")
    return await console.waiters.wait(number, seconds / SECOND)


@router.get("/tasks/{number}/logs", response_model=answer(TaskLogs))
def logs(
    number: TaskId,
    console: ReadyConsole,
    search: Annotated[str | None, Query(max_length=255, pattern=STORABLE)] = None,
) -> TaskLogs:
    """What its last runs logged, if its kind keeps that; with `search` only lines that have it."""
    return operate.logs_of(console.app.fleet, number, search=search)


@router.post("/tasks/retry", responses=problems(404), response_model=answer(Bulk))
def retry_many(body: BulkRetry, console: ReadyConsole, log: RequestLog) -> Bulk:
    """Let all tasks that match run again; a call does up to 5,000."""
    with log.record(Action.TASK_RETRY, body.kind, **body.told) as entry:
        found = operate.retry_many(console.app.fleet, body.wanted, after=body.next)
        entry.says(found.message)
    return found


@router.post("/tasks/cancel", responses=problems(404), response_model=answer(Bulk))
def cancel_many(body: BulkCancel, console: ReadyConsole, log: RequestLog) -> Bulk:
    """End all tasks that match; a call does up to 5,000."""
    fleet, registry = console.app.fleet, console.app.registry
    with log.record(Action.TASK_CANCEL, body.kind, **body.told) as entry:
        found = operate.cancel_many(
            fleet, registry, body.wanted, after=body.next, reason=body.reason
        )
        entry.says(found.message)
    return found


@router.post("/tasks/{number}/retry", responses=problems(404, 409))
def retry(number: TaskId, console: ReadyConsole, log: RequestLog) -> ActionResult:
    """Let a failed or cancelled task run again."""
    with log.record(Action.TASK_RETRY, str(number)) as entry:
        return ActionResult(message=entry.says(operate.must_retry(console.app.fleet, number)))


@router.post("/tasks/{number}/cancel", responses=problems(404, 409))
def cancel(
    number: TaskId, body: CancelTask, console: ReadyConsole, log: RequestLog
) -> ActionResult:
    """End a task that has not ended."""
    fleet, registry = console.app.fleet, console.app.registry
    with log.record(Action.TASK_CANCEL, str(number), reason=body.reason) as entry:
        message = operate.must_cancel(fleet, registry, number, reason=body.reason)
        return ActionResult(message=entry.says(message))


@router.get("/kinds/{kind}/form", responses=problems(404), response_model=answer(FormView))
def form_of(kind: KindName, console: ReadyConsole) -> FormView:
    """What a kind takes when it is enqueued or started by hand: its parameters, with schemas."""
    return form.form_of(console.app.registry, kind)


def _filter(
    kind: str | None,
    status: str | None,
    key: str | None,
    created: tuple[datetime | None, datetime | None],
) -> TaskFilter:
    after, before = (None if moment is None else from_datetime(moment) for moment in created)
    return TaskFilter(
        kind=kind,
        status=None if status is None else Status.named(status),
        key=key,
        created_after=after,
        created_before=before,
    )
