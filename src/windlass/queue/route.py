"""Queues over HTTP: what comes in and goes out, failed messages, retry and drop."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from windlass.queue.model.message import FailedMessage
from windlass.queue.operate import operate
from windlass.queue.operate.operate import QueueDetail, QueueView
from windlass.view.action import Action
from windlass.web.problem import problems
from windlass.web.request import ReadyConsole, RequestLog
from windlass.web.view import ActionResult, RequestBody, answer

router = APIRouter(tags=["queues"])
one = APIRouter(prefix="/queues/{name}", responses=problems(404))

MOST_FAILED = 1_000
Limit = Annotated[int, Query(ge=1, le=MOST_FAILED)]
QueueName = Annotated[str, Path(max_length=500, description="The queue, or its consumer.")]


class Messages(RequestBody):
    """Which failed messages are meant; all of them without ids."""

    ids: Annotated[list[int], Field(min_length=1, max_length=MOST_FAILED)] | None = None


@router.get("/queues", response_model=answer(list[QueueView]))
def queues(console: ReadyConsole) -> list[QueueView]:
    """All queues that are consumed or were published to, by name."""
    return list(operate.listing(console.app.fleet, console.app.registry))


@one.get("", response_model=answer(QueueDetail))
def queue(name: QueueName, console: ReadyConsole, ask: bool = False) -> QueueDetail:
    """One queue. With `ask`, its broker is asked how many messages wait there."""
    return operate.show(console.app.fleet, console.app.registry, name, ask=ask)


@one.get("/failed", response_model=answer(list[FailedMessage]))
def failed(name: QueueName, console: ReadyConsole, limit: Limit = 100) -> list[FailedMessage]:
    """Failed messages with their bodies, newest first."""
    return list(operate.failed(console.app.fleet, console.app.registry, name, limit=limit))


@one.post("/retry")
def retry(name: QueueName, console: ReadyConsole, body: Messages, log: RequestLog) -> ActionResult:
    """Try failed messages again."""
    with log.record(Action.QUEUE_RETRY, name, messages=body.ids) as entry:
        count = operate.retry(console.app.fleet, console.app.registry, name, body.ids)
        message = entry.says(f"{count:,} messages of {name} are tried again")
    return ActionResult(message=message, changed=count)


@one.post("/drop")
def drop(name: QueueName, console: ReadyConsole, body: Messages, log: RequestLog) -> ActionResult:
    """Delete failed messages."""
    with log.record(Action.QUEUE_DROP, name, messages=body.ids) as entry:
        count = operate.drop(console.app.fleet, console.app.registry, name, body.ids)
        message = entry.says(f"{count:,} messages of {name} were deleted")
    return ActionResult(message=message, changed=count)


router.include_router(one)
