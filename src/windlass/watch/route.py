"""The routes of the first page, of kinds, alerts, the audit log, health and changes."""

from __future__ import annotations

import asyncio
import json
import platform
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse, StreamingResponse
from pydantic import Field

from windlass.errors import DatabaseUnavailable, NotPossible
from windlass.flow.operate import view as flow_view
from windlass.flow.operate.view import FlowRunView
from windlass.value.duration import parse_duration
from windlass.value.status import Status
from windlass.value.task import FailureView
from windlass.view.field import Moment
from windlass.view.listing import Listing
from windlass.watch.model import (
    AlertDetail,
    AlertView,
    AuditEntry,
    ChannelView,
    KindDetail,
    KindView,
    Minute,
    WorkerLine,
    worker_lines,
)
from windlass.watch.operate import alert, change, channel, check, metric, status
from windlass.watch.operate import audit as audit_log
from windlass.watch.operate.check import DatabaseHealth, Finding
from windlass.web.access import Actor
from windlass.web.problem import problem, problems
from windlass.web.request import (
    AnyConsole,
    Console,
    KindName,
    KnownConsole,
    ReadyConsole,
    RequestActor,
    RequestLog,
)
from windlass.web.static import is_built
from windlass.web.view import STORABLE, ActionResult, RequestBody, View, answer

ALERTS_SHOWN = 5
RUNS_SHOWN = 5
HIDDEN = ("workers.left_at", "workers.left_why", "workers.declared")
PACKAGES = ("sqlalchemy", "fastapi", "uvicorn", "psycopg", "pymysql")
# Proxies close connections that are silent for long.
ALIVE_SECONDS = 15.0
LOOK_SECONDS = 1.0

# The OpenAPI document begins with these: the first page, and kinds.
first = APIRouter()
router = APIRouter()
# Beside the API: for tools that supervise processes, without a credential.
plain = APIRouter()

AlertId = Annotated[int, Path(ge=1, lt=2**63)]


@dataclass(frozen=True)
class FlowsNow:
    """The newest flow runs that go on, and the newest that failed and are kept."""

    running: list[FlowRunView]
    failed: list[FlowRunView]


@dataclass(frozen=True)
class Overview:
    """How everything is doing. Counts are exact up to 10,000; more is shown as 10,001."""

    now: Moment
    database: str
    shards: tuple[str, ...]
    missing: tuple[str, ...]
    kinds: list[KindView]
    workers: list[WorkerLine]
    failures: list[FailureView]
    alerts: list[AlertView]
    flows: FlowsNow
    # One entry for each of the last 60 minutes, oldest first; the last one is not over.
    minutes: list[Minute]


@first.get("/overview", tags=["overview"], response_model=answer(Overview, without=HIDDEN))
def overview(console: ReadyConsole) -> Overview:
    """How everything is doing now."""
    fleet, registry = console.app.fleet, console.app.registry
    found = status.look(fleet, registry)
    return Overview(
        now=found.now,
        database=found.database,
        shards=found.shards,
        missing=found.missing,
        kinds=status.kind_views(found.kinds, registry),
        workers=worker_lines(found),
        failures=found.failures,
        alerts=alert.listing(fleet, limit=ALERTS_SHOWN),
        flows=FlowsNow(_runs(console, Status.RUNNING), _runs(console, Status.FAILED)),
        minutes=status.pace(fleet),
    )


@first.get("/kinds", tags=["kinds"], response_model=answer(list[KindView]))
def kinds(console: ReadyConsole) -> list[KindView]:
    """All kinds that are declared, or have rows."""
    return status.listing(console.app.fleet, console.app.registry)


@first.get(
    "/kinds/{kind}", tags=["kinds"], responses=problems(404), response_model=answer(KindDetail)
)
def kind(kind: KindName, console: ReadyConsole) -> KindDetail:
    """One kind."""
    return status.show(console.app.fleet, console.app.registry, kind)


class OpenAlerts(View):
    """How many of the newest alerts are open; exact up to 500."""

    count: int


class Acknowledge(RequestBody):
    """How long it and all of its sort and kind stay quiet; null: until there is a new one."""

    quiet: Annotated[str, Field(max_length=20)] | None = Field(default=None, examples=["1h"])


@router.get("/alerts", tags=["alerts"], response_model=answer(Listing[AlertView]))
def alerts(
    console: ReadyConsole, limit: Annotated[int, Query(ge=1, le=1_000)] = 100
) -> Listing[AlertView]:
    """The last alerts, newest first; they are kept for 30 days."""
    return alert.listing(console.app.fleet, limit=limit)


@router.get("/alerts/open", tags=["alerts"])
def open_alerts(console: ReadyConsole) -> OpenAlerts:
    """How many alerts are open."""
    return OpenAlerts(count=alert.open_count(console.app.fleet))


@router.get(
    "/alerts/{number}", tags=["alerts"], responses=problems(404), response_model=answer(AlertDetail)
)
def one_alert(number: AlertId, console: ReadyConsole) -> AlertDetail:
    """One alert, and its deliveries to channels."""
    return alert.show(console.app.fleet, number)


@router.get("/channels", tags=["alerts"], response_model=answer(list[ChannelView]))
def channels(console: KnownConsole) -> list[ChannelView]:
    """Where alerts go. The URLs are secrets and are not shown."""
    return channel.listing(console.app.channels)


@router.post("/channels/{name}/test", tags=["alerts"], responses=problems(404, 409))
def test_channel(
    name: Annotated[str, Path(max_length=100)], console: ReadyConsole, log: RequestLog
) -> ActionResult:
    """Send a test message to a channel now."""
    return ActionResult(message=channel.try_out(console.app.channels, log, name))


@router.post("/alerts/{number}/acknowledge", tags=["alerts"], responses=problems(404))
def acknowledge(
    number: AlertId, body: Acknowledge, console: ReadyConsole, log: RequestLog
) -> ActionResult:
    """Acknowledge an alert, and all of its sort and kind until now."""
    quiet = None if body.quiet is None else parse_duration(body.quiet, what="quiet")
    return ActionResult(message=alert.acknowledge(console.app.fleet, log, number, quiet=quiet))


@router.post("/alerts/{number}/recall", tags=["alerts"], responses=problems(404))
def recall(number: AlertId, console: ReadyConsole, log: RequestLog) -> ActionResult:
    """Take an acknowledgement back: the alert is open again."""
    return ActionResult(message=alert.recall(console.app.fleet, log, number))


@router.get("/audit", tags=["audit"], response_model=answer(Listing[AuditEntry]))
def audit(
    console: ReadyConsole,
    who: Annotated[str | None, Query(max_length=255, pattern=STORABLE)] = None,
    about: Annotated[str | None, Query(max_length=300, pattern=STORABLE)] = None,
    after: Annotated[str | None, Query(pattern=r"^\d{1,18}-\d{1,18}$")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Listing[AuditEntry]:
    """What was done, newest first; `after` is the `next` of the page before."""
    return audit_log.listing(console.app.fleet, limit=limit, after=after, who=who, about=about)


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


@router.get("/about", tags=["about"], response_model=answer(About, without=("databases.now",)))
def about(request: Request, console: KnownConsole) -> About:
    """Versions, schema and health."""
    databases = check.health(console.app.fleet)
    return About(
        version=request.app.version,
        python=platform.python_version(),
        packages={name: found for name in PACKAGES if (found := _version(name)) is not None},
        is_built=is_built(),
        now=next((each.now for each in databases if each.now is not None), None),
        databases=databases,
        findings=check.of_kinds(console.app.registry),
    )


@router.get("/health", tags=["about"], responses=problems(503))
def answers(console: AnyConsole, response: Response) -> Health:
    """Whether a database answers, for tools that supervise processes; needs no secret."""
    if not any(each.problem is None for each in check.health(console.app.fleet)):
        raise DatabaseUnavailable("the database does not answer")
    response.headers["Cache-Control"] = "no-store"
    return Health(status="ok")


@plain.get("/healthz", include_in_schema=False)
def is_alive() -> PlainTextResponse:
    """Whether the console is alive."""
    return PlainTextResponse("ok\n")


@plain.get("/readyz", include_in_schema=False)
def is_ready(console: AnyConsole) -> PlainTextResponse:
    """Whether the console can answer: a database does."""
    if any(each.problem is None for each in check.health(console.app.fleet)):
        return PlainTextResponse("ok\n")
    return PlainTextResponse("not ready: the database does not answer\n", status_code=503)


@plain.get("/metrics", include_in_schema=False)
def metrics(console: KnownConsole) -> Response:
    """The metrics of this process and of the databases, for Prometheus."""
    if not metric.is_installed():
        return problem(501, "NotInstalled", metric.NOT_INSTALLED)
    page = console.metrics.page()
    return Response(page.text, media_type=page.media_type)


class Marks(View):
    """A mark for each topic; it changes when something of the topic changes."""

    topics: dict[str, str]


@router.get("/changes", tags=["events"])
def changes(console: ReadyConsole) -> Marks:
    """The marks of now, for clients that cannot listen to events and ask again and again."""
    return Marks(topics=change.marks(console.app.fleet))


@router.get(
    "/events",
    tags=["events"],
    response_class=StreamingResponse,
    responses=problems(409)
    | {
        200: {
            "description": "Events named `change`; the data is a JSON list of topics that changed.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
)
async def events(request: Request, console: ReadyConsole, actor: RequestActor) -> StreamingResponse:
    """What changes, as it changes: read the named topics again."""
    if console.changes.is_full:
        raise NotPossible("there are too many listeners; ask for /api/changes now and then instead")
    return StreamingResponse(
        _events(request, console, actor, await console.changes.begin()),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


def _runs(console: Console, status: Status) -> list[FlowRunView]:
    return flow_view.page(console.app.flows.finder, status=status, limit=RUNS_SHOWN)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


async def _events(
    request: Request, console: Console, actor: Actor, since: dict[str, str]
) -> AsyncIterator[str]:
    yield "retry: 2000\n\n"
    silent_since = time.monotonic()
    async with console.changes.listening(since) as changes:
        while not await request.is_disconnected() and await _is_known(console, actor):
            try:
                topics = await asyncio.wait_for(changes.get(), LOOK_SECONDS)
                yield f"event: change\ndata: {json.dumps(sorted(topics))}\n\n"
            except TimeoutError:
                if time.monotonic() - silent_since < ALIVE_SECONDS:
                    continue
                yield ": alive\n\n"
            silent_since = time.monotonic()


async def _is_known(console: Console, actor: Actor) -> bool:
    """Whether a listener may still listen: a token may have been revoked."""
    if actor.token is None:
        return console.still_knows(actor)
    return await run_in_threadpool(console.still_knows, actor)
