"""The routes of the API, one module per face; a new face is one more line here."""

from __future__ import annotations

from functools import cache

from fastapi import APIRouter

from windlass.web.problem import problems
from windlass.web.route import (
    about,
    alert,
    audit,
    control,
    event,
    flow,
    kind,
    ledger,
    movement,
    overview,
    ring,
    rolling,
    session,
    sweep,
    switch,
    task,
    template,
)

FACES = (
    session,
    overview,
    kind,
    rolling,
    sweep,
    flow,
    template,
    control,
    ring,
    task,
    ledger,
    movement,
    switch,
    alert,
    audit,
    about,
    event,
)


@cache
def routes() -> APIRouter:
    """Everything below /api; put together once for all consoles of a process."""
    api = APIRouter(prefix="/api", responses=problems(400, 401, 403, 413, 422, 429, 503))
    for face in FACES:
        api.include_router(face.router)
    return api
