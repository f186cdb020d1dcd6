"""Alerts: what a person should know."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from windlass.operate import gather
from windlass.web.desk import DeskOf
from windlass.web.view import Moment, Page, View, many

router = APIRouter(tags=["alerts"])


class AlertOut(View):
    """An alert."""

    id: int
    what: str
    kind: str | None
    task_id: int | None
    raised_at: Moment
    text: str


@router.get("/alerts")
def alerts(desk: DeskOf, limit: Annotated[int, Query(ge=1, le=1_000)] = 100) -> Page[AlertOut]:
    """The last alerts, newest first; they are kept for 30 days."""
    found = gather.alerts(desk.app.fleet, limit=limit)
    return Page(items=many(AlertOut, found), missing=found.missing)
