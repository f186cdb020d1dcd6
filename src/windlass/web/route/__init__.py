"""The routes of the API, one module per face; a new face is one more line here."""

from __future__ import annotations

from fastapi import APIRouter

from windlass.web.problem import problems
from windlass.web.route import (
    about,
    alert,
    audit,
    control,
    event,
    kind,
    overview,
    ring,
    rolling,
    session,
    sweep,
    switch,
    task,
)

FACES = (
    session,
    overview,
    kind,
    rolling,
    sweep,
    control,
    ring,
    task,
    switch,
    alert,
    audit,
    about,
    event,
)


def routes() -> APIRouter:
    """Everything below /api."""
    api = APIRouter(prefix="/api", responses=problems(401, 403, 422, 503))
    for face in FACES:
        api.include_router(face.router)
    return api
