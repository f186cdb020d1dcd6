"""The route of the audit log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from windlass.view.listing import Listing
from windlass.watch.audit import operate
from windlass.watch.audit.model import AuditEntry
from windlass.web.request import ReadyConsole
from windlass.web.view import STORABLE, answer

router = APIRouter(tags=["audit"])


@router.get("/audit", response_model=answer(Listing[AuditEntry]))
def audit(
    console: ReadyConsole,
    who: Annotated[str | None, Query(max_length=255, pattern=STORABLE)] = None,
    about: Annotated[str | None, Query(max_length=300, pattern=STORABLE)] = None,
    after: Annotated[str | None, Query(pattern=r"^\d{1,18}-\d{1,18}$")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Listing[AuditEntry]:
    """What was done, newest first; `after` is the `next` of the page before."""
    return operate.listing(console.app.fleet, limit=limit, after=after, who=who, about=about)
