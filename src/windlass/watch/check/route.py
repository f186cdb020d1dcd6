"""The routes about the installation: versions, schema and health."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from fastapi import APIRouter, Request, Response

from windlass.errors import DatabaseUnavailable
from windlass.view.field import Moment
from windlass.watch.check import health
from windlass.watch.check.health import DatabaseHealth
from windlass.watch.check.operate import Finding, of_kinds
from windlass.web.problem import problems
from windlass.web.request import AnyConsole, KnownConsole
from windlass.web.static import is_built
from windlass.web.view import View, answer

router = APIRouter(tags=["about"])

PACKAGES = ("sqlalchemy", "fastapi", "uvicorn", "psycopg", "pymysql")


@dataclass(frozen=True)
class About:
    """Versions, schema and health. `findings` are what `windlass check` says of the kinds."""

    version: str
    python: str
    packages: dict[str, str]
    is_built: bool
    now: Moment | None
    databases: list[DatabaseHealth]
    findings: list[Finding]


class Health(View):
    """Whether the console and its database answer."""

    status: Literal["ok"]


@router.get("/about", response_model=answer(About, without=("databases.now",)))
def about(request: Request, console: KnownConsole) -> About:
    """Versions, schema and health."""
    databases = health.look(console.app.fleet)
    return About(
        version=request.app.version,
        python=platform.python_version(),
        packages={name: found for name in PACKAGES if (found := _version(name)) is not None},
        is_built=is_built(),
        now=next((each.now for each in databases if each.now is not None), None),
        databases=databases,
        findings=of_kinds(console.app.registry),
    )


@router.get("/health", responses=problems(503))
def answers(console: AnyConsole, response: Response) -> Health:
    """Whether a database answers, for tools that supervise processes; needs no secret."""
    if not any(each.problem is None for each in health.look(console.app.fleet)):
        raise DatabaseUnavailable("the database does not answer")
    response.headers["Cache-Control"] = "no-store"
    return Health(status="ok")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
