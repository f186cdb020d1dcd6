"""Tasks: find them, look at one, and retry or cancel them, one by one or by a filter."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field

from windlass.clock import from_datetime
from windlass.core.task.store.page import TaskQuery
from windlass.errors import NotPossible, TaskNotFound
from windlass.operate import fan_out as gather
from windlass.operate.task import bulk
from windlass.operate.task.bulk import Act, Bulk
from windlass.operate.task.operate import TaskDetail
from windlass.value.status import Status
from windlass.watch.audit.model import Action
from windlass.web.problem import problems
from windlass.web.request import Console, ReadyConsole, RequestLog
from windlass.web.view import (
    STORABLE,
    Body,
    Code,
    Done,
    FailureOut,
    Moment,
    Names,
    Reason,
    StatusName,
    View,
    When,
    many,
)

router = APIRouter(tags=["tasks"])

MOST_LISTED = 500
StatusText = Literal[
    "waiting", "running", "succeeded", "failed", "blocked", "external", "cancelled"
]
# Those of items that a trigger made are negative.
TaskId = Annotated[int, Path(ge=-(2**63), le=2**63 - 1)]
KindText = Annotated[str, Field(min_length=1, max_length=100, pattern=STORABLE)]


class TaskOut(View):
    """A task as a list shows it."""

    id: int
    kind: str
    key: str | None
    status: StatusName
    priority: int
    due_at: Moment | None
    attempt: int
    lost: int
    worker: int | None
    created_at: Moment
    started_at: Moment | None
    finished_at: Moment | None
    last_status: StatusName | None
    remark: str | None


class TaskPage(View):
    """Tasks, newest first.

    `next` is the cursor of what follows; null at the end. A page may be short, or empty, and have a
    `next`: only so many rows are looked at in one call. `missing` names shards that do not answer.
    """

    items: list[TaskOut]
    next: str | None
    looked_at: int
    missing: Names


class TaskFull(TaskOut):
    """A task with everything; `payload` and `result` are JSON."""

    bucket: int
    batch: int | None
    payload: str
    result: str | None
    is_rolling: bool
    can_retry: bool
    can_cancel: bool


class NodeRef(View):
    """Which node of which run a task is; the run itself has no node."""

    run: int
    node: str | None


class TaskDetailOut(View):
    """A task, its last errors, the run of a flow that it belongs to, and the shard that has it."""

    task: TaskFull
    flow: NodeRef | None
    failures: list[FailureOut]
    shard: str
    missing: Names


class Cancel(Body):
    """Why, for those who look later."""

    reason: Reason = ""


class Filter(Body):
    """Which tasks. The status must be given, so that nobody acts on everything by accident."""

    status: StatusText
    kind: KindText | None = None
    key: Code | None = None
    created_after: When | None = None
    created_before: When | None = None


class BulkRetry(Filter):
    """Which failed or cancelled tasks to let run again; `next` goes on where a call ended."""

    status: Literal["failed", "cancelled"]
    next: Annotated[str, Field(max_length=200)] | None = None


class BulkCancel(Filter):
    """Which tasks to end; `next` goes on where a call ended."""

    status: Literal["waiting", "running", "external"]
    reason: Reason = ""
    next: Annotated[str, Field(max_length=200)] | None = None


class BulkDone(Done):
    """What was done so far; with `next`, call again with it to do the rest."""

    skipped: int
    next: str | None


@router.get("/tasks")
def tasks(
    console: ReadyConsole,
    kind: Annotated[str | None, Query(max_length=100, pattern=STORABLE)] = None,
    status: StatusText | None = None,
    key: Annotated[str | None, Query(max_length=255, pattern=STORABLE)] = None,
    created_after: When | None = None,
    created_before: When | None = None,
    after: Annotated[str | None, Query(max_length=200, pattern=STORABLE)] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 50,
) -> TaskPage:
    """Tasks that match, newest first; `after` is the `next` of the page before."""
    query = TaskQuery(
        kind=kind,
        status=None if status is None else Status.named(status),
        key=key,
        created_after=None if created_after is None else from_datetime(created_after),
        created_before=None if created_before is None else from_datetime(created_before),
    )
    found = gather.task_page(console.app.fleet, query, after=after, limit=limit)
    return TaskPage(
        items=many(TaskOut, found.tasks),
        next=found.next,
        looked_at=found.looked_at,
        missing=found.missing,
    )


@router.get("/tasks/{number}", responses=problems(404))
def task(number: TaskId, console: ReadyConsole) -> TaskDetailOut:
    """One task, with its arguments, its result and its last errors."""
    return _detail(console, gather.show(console.app.fleet, number))


@router.post("/tasks/retry", responses=problems(404))
def retry_many(body: BulkRetry, console: ReadyConsole, log: RequestLog) -> BulkDone:
    """Let all tasks that match run again; a call does up to 5,000."""
    with log.record(Action.TASK_RETRY, body.kind, **_told(body)) as entry:
        done = bulk.retry(console.app.fleet, console.app.registry, _query(body), after=body.next)
        return _bulk_done(done, entry.says(f"{done.changed:,} tasks will run again"))


@router.post("/tasks/cancel", responses=problems(404))
def cancel_many(body: BulkCancel, console: ReadyConsole, log: RequestLog) -> BulkDone:
    """End all tasks that match; a call does up to 5,000."""
    with log.record(Action.TASK_CANCEL, body.kind, **_told(body)) as entry:
        done = bulk.cancel(
            console.app.fleet,
            console.app.registry,
            _query(body),
            after=body.next,
            reason=body.reason,
        )
        return _bulk_done(done, entry.says(f"{done.changed:,} tasks are cancelled"))


@router.post("/tasks/{number}/retry", responses=problems(404, 409))
def retry(number: TaskId, console: ReadyConsole, log: RequestLog) -> Done:
    """Let a failed or cancelled task run again."""
    with log.record(Action.TASK_RETRY, str(number)) as entry:
        if not gather.retry(console.app.fleet, number):
            _refuse(console, number, "only a failed or cancelled task can be retried")
        return Done(message=entry.says(f"task {number} will run again"))


@router.post("/tasks/{number}/cancel", responses=problems(404, 409))
def cancel(number: TaskId, body: Cancel, console: ReadyConsole, log: RequestLog) -> Done:
    """End a task that has not ended."""
    with log.record(Action.TASK_CANCEL, str(number), reason=body.reason) as entry:
        if not console.app.cancel(number, reason=body.reason):
            _refuse(console, number, "only a task that has not ended can be cancelled")
        return Done(message=entry.says(f"task {number} is cancelled"))


def _refuse(console: Console, number: int, rule: str) -> None:
    found = gather.find(console.app.fleet, number)
    if found is None:
        raise TaskNotFound(number)
    raise NotPossible(f"task {number} is {found.status}; {rule}")


def _detail(console: Console, found: TaskDetail) -> TaskDetailOut:
    return TaskDetailOut(
        task=_full(console, found),
        flow=None if found.node is None else NodeRef(run=found.node[0], node=found.node[1] or None),
        failures=many(FailureOut, found.failures),
        shard=found.shard,
        missing=found.missing,
    )


def _full(console: Console, detail: TaskDetail) -> TaskFull:
    found = detail.task
    kind = console.app.registry.kinds.get(found.kind)
    is_rolling = kind is not None and kind.period is not None
    plain = {name: getattr(found, name) for name in found.__struct_fields__}
    return TaskFull.model_validate(
        {
            **plain,
            "is_rolling": is_rolling,
            # A node is retried, skipped or cancelled with its run.
            "can_retry": found.status in Act.RETRY.statuses and detail.node is None,
            "can_cancel": found.status in Act.CANCEL.statuses
            and not is_rolling
            and detail.node is None,
        }
    )


def _query(body: Filter) -> TaskQuery:
    after, before = body.created_after, body.created_before
    return TaskQuery(
        kind=body.kind,
        status=Status.named(body.status),
        key=body.key,
        created_after=None if after is None else from_datetime(after),
        created_before=None if before is None else from_datetime(before),
    )


def _told(body: Filter) -> dict[str, object]:
    """The filter, for the log."""
    return {"filter": body.model_dump(mode="json", exclude_none=True)}


def _bulk_done(done: Bulk, message: str) -> BulkDone:
    skipped = f"; {done.skipped:,} had changed, or cannot be" if done.skipped else ""
    more = "; there may be more" if done.next else ""
    return BulkDone(
        message=f"{message}{skipped}{more}",
        changed=done.changed,
        skipped=done.skipped,
        next=done.next,
    )
