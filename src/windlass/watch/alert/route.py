"""The routes of alerts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from windlass.value.duration import parse_duration
from windlass.view.listing import Listing
from windlass.watch.alert import operate
from windlass.watch.alert.model import AlertView
from windlass.web.problem import problems
from windlass.web.request import ReadyConsole, RequestLog
from windlass.web.view import ActionResult, RequestBody, View, answer

router = APIRouter(tags=["alerts"])

AlertId = Annotated[int, Path(ge=1, lt=2**63)]


class OpenAlerts(View):
    """How many of the newest alerts are open; exact up to 500."""

    count: int


class Acknowledge(RequestBody):
    """How long it and all of its sort and kind stay quiet; null: until there is a new one."""

    quiet: Annotated[str, Field(max_length=20)] | None = Field(default=None, examples=["1h"])


@router.get("/alerts", response_model=answer(Listing[AlertView]))
def alerts(
    console: ReadyConsole, limit: Annotated[int, Query(ge=1, le=1_000)] = 100
) -> Listing[AlertView]:
    """The last alerts, newest first; they are kept for 30 days."""
    return operate.listing(console.app.fleet, limit=limit)


@router.get("/alerts/open")
def open_alerts(console: ReadyConsole) -> OpenAlerts:
    """How many alerts are open."""
    return OpenAlerts(count=operate.open_count(console.app.fleet))


@router.post("/alerts/{number}/acknowledge", responses=problems(404))
def acknowledge(
    number: AlertId, body: Acknowledge, console: ReadyConsole, log: RequestLog
) -> ActionResult:
    """Acknowledge an alert, and all of its sort and kind until now."""
    quiet = None if body.quiet is None else parse_duration(body.quiet, what="quiet")
    return ActionResult(message=operate.acknowledge(console.app.fleet, log, number, quiet=quiet))


@router.post("/alerts/{number}/recall", responses=problems(404))
def recall(number: AlertId, console: ReadyConsole, log: RequestLog) -> ActionResult:
    """Take an acknowledgement back: the alert is open again."""
    return ActionResult(message=operate.recall(console.app.fleet, log, number))
