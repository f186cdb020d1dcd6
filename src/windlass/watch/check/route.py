"""What this is: versions, schema and health."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from fastapi import APIRouter, Response

from windlass import __version__
from windlass.clock import to_datetime
from windlass.errors import DatabaseUnavailable
from windlass.watch.check import health
from windlass.web.problem import problems
from windlass.web.request import AnyConsole, KnownConsole
from windlass.web.static import is_built
from windlass.web.view import Moment, View, many

router = APIRouter(tags=["about"])

PACKAGES = ("sqlalchemy", "fastapi", "uvicorn", "psycopg", "pymysql")


class DatabaseOut(View):
    """A database; `server` is its version, `schema_found` that of its tables."""

    name: str
    dialect: str
    server: str | None
    schema_found: str | None
    schema_needed: str
    milliseconds: float | None
    problem: str | None


class FindingOut(View):
    """Something that is wrong, or may be."""

    level: Literal["error", "warning"]
    about: str
    text: str


class About(View):
    """Versions, schema and health. `findings` are what `windlass check` says of the kinds."""

    version: str
    python: str
    packages: dict[str, str]
    is_built: bool
    now: Moment | None
    databases: list[DatabaseOut]
    findings: list[FindingOut]


class Health(View):
    """Whether the console and its database answer."""

    status: Literal["ok"]


@router.get("/about")
def about(console: KnownConsole) -> About:
    """Versions, schema and health."""
    databases = health.look(console.app.fleet)
    return About(
        version=__version__,
        python=platform.python_version(),
        packages={name: found for name in PACKAGES if (found := _version(name)) is not None},
        is_built=is_built(),
        now=next((to_datetime(each.now) for each in databases if each.now is not None), None),
        databases=many(DatabaseOut, databases),
        findings=many(FindingOut, health.findings(console.app.registry)),
    )


@router.get("/health", responses=problems(503))
def answers(console: AnyConsole, response: Response) -> Health:
    """Whether the database answers, for those who watch over processes; asks for no secret."""
    if not any(each.problem is None for each in health.look(console.app.fleet)):
        raise DatabaseUnavailable("the database does not answer")
    response.headers["Cache-Control"] = "no-store"
    return Health(status="ok")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
