"""The audit log: who did what, when, and what came of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from windlass.watch.audit import operate
from windlass.watch.audit.store import Before, Deed
from windlass.web.desk import DeskOf
from windlass.web.view import STORABLE, Moment, Page, View, many

router = APIRouter(tags=["audit"])


class DeedOut(View):
    """What somebody did; `detail` is JSON. `ok` is null if it never came to an end."""

    id: int
    acted_at: Moment
    who: str
    via: str
    address: str | None
    action: str
    about: str | None
    detail: str | None
    ok: bool | None
    outcome: str | None


@router.get("/audit")
def audit(
    desk: DeskOf,
    who: Annotated[str | None, Query(max_length=255, pattern=STORABLE)] = None,
    about: Annotated[str | None, Query(max_length=300, pattern=STORABLE)] = None,
    after: Annotated[str | None, Query(pattern=r"^\d{1,18}-\d{1,18}$")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Page[DeedOut]:
    """What was done, newest first; `after` is the `next` of the page before."""
    before = None if after is None else Before(*map(int, after.split("-")))
    found = operate.listing(desk.app.fleet, limit=limit, before=before, who=who, about=about)
    last = found[-1] if len(found) == limit else None
    return Page(items=many(DeedOut, found), next=_cursor(last), missing=found.missing)


def _cursor(last: Deed | None) -> str | None:
    return None if last is None else f"{last.acted_at}-{last.id}"
