"""Everything below /api: the routes of all faces, from one list."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from fastapi import APIRouter

from windlass.web.problem import problems

# In the order of the OpenAPI document; a new face is one more line.
ROUTES = (
    "windlass.web.session.route",
    "windlass.watch.status.route",
    "windlass.rolling.route",
    "windlass.sweep.route",
    "windlass.flow.route.flow",
    "windlass.flow.route.template",
    "windlass.control.route",
    "windlass.operate.ring.route",
    "windlass.operate.task.route",
    "windlass.ledger.route.ledger",
    "windlass.ledger.route.movement",
    "windlass.operate.switch.route",
    "windlass.watch.alert.route",
    "windlass.watch.audit.route",
    "windlass.watch.check.route",
    "windlass.watch.change.route",
)


@cache
def routes() -> APIRouter:
    """All routes, put together once for all consoles of a process."""
    api = APIRouter(prefix="/api", responses=problems(400, 401, 403, 413, 422, 429, 503))
    for name in ROUTES:
        api.include_router(import_module(name).router)
    return api
