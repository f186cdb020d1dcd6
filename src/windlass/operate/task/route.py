"""The routes of tasks: find them, show one, retry and cancel them, one or many."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field

from windlass.clock import from_datetime
from windlass.operate.task import operate
from windlass.operate.task.operate import Bulk, TaskDetail, TaskListing, TaskLogs
from windlass.value.status import Status
from windlass.value.task import TaskFilter, TaskView
from windlass.view.action import Action
from windlass.web.problem import problems
from windlass.web.request import ReadyConsole, RequestLog
from windlass.web.view import STORABLE, ActionResult, Code, Reason, RequestBody, When, answer

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
