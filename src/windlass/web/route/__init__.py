"""The routes of the API, one module per face; a new face is one more line here."""

from __future__ import annotations

from functools import cache

from fastapi import APIRouter

from windlass.control import route as control
from windlass.flow.route import flow, template
from windlass.ledger.route import ledger, movement
from windlass.operate.ring import route as ring
from windlass.operate.switch import route as switch
from windlass.operate.task import route as task
from windlass.rolling import route as rolling
from windlass.sweep import route as sweep
from windlass.watch.alert import route as alert
from windlass.watch.audit import route as audit
from windlass.watch.change import route as event
from windlass.watch.check import route as about
from windlass.watch.kind import route as kind
from windlass.watch.status import route as overview
from windlass.web import login as session
from windlass.web.problem import problems

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
