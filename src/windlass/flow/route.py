"""The API of flows and templates: start, show, retry, skip, edit and cancel; check and save."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from fastapi import APIRouter, Path, Query
from pydantic import Field

from windlass.errors import (
    BadFlow,
    BadInput,
    NotPossible,
    UnknownFlow,
    UnknownKind,
    WindlassError,
)
from windlass.flow.declare import RunEdit
from windlass.flow.model.graph import Trigger
from windlass.flow.model.run import FlowGraph, NodeFilter
from windlass.flow.operate import view
from windlass.flow.operate.template import StartableView, TemplateView
from windlass.flow.operate.view import FlowDetail, FlowNodeDetail, FlowNodePage, FlowRunView
from windlass.value.status import Status
from windlass.view.action import LONGEST_TOLD, Action
from windlass.view.listing import Listing
from windlass.web.problem import problems
from windlass.web.request import ReadyConsole, RequestLog, RequestOnce, RunName
from windlass.web.view import (
    STORABLE,
    ActionResult,
    Code,
    JsonList,
    JsonObject,
    Names,
    Reason,
    RequestBody,
    View,
    answer,
    json_text,
    shown_as,
)

flow_api = APIRouter(tags=["flows"])
template_api = APIRouter(tags=["templates"])

UNKNOWN = problems(404)
REFUSALS = problems(404, 409)

MOST_LISTED = 200
MOST_NODES = 500
MOST_CHANGES = 200
MOST_SAVED_NODES = 1_000
MOST_SAVED_EDGES = 5_000
# `windlass flow export` exports larger graphs.
MOST_EXPORTED = 10_000
# How many names of new nodes the audit log gets.
MOST_TOLD = 20
T = TypeVar("T")

RunId = Annotated[int, Path(ge=-(2**63), le=2**63 - 1)]
RunStatus = Literal["running", "succeeded", "failed", "cancelled"]
NodeStatus = Literal[
    "waiting", "running", "succeeded", "failed", "blocked", "external", "cancelled"
]
NodeName = Annotated[str, Field(min_length=1, max_length=255, pattern=STORABLE)]
FlowName = Annotated[str, Field(min_length=1, max_length=100, pattern=STORABLE)]
When = Annotated[str, Field(max_length=1_000, pattern=STORABLE)]
Edge = Annotated[tuple[NodeName, NodeName], Field(description="From a node, to one that waits.")]
Format = Literal["mermaid", "dot", "json"]
Form = Annotated[Format, Query(alias="format")]
Version = Annotated[int | None, Query(ge=1, le=2**31 - 1)]
VERSIONS = answer(list[TemplateView], name="TemplateVersion", without=("spec",))


class ExportOut(View):
    """A graph as text."""

    format: Format
    text: str


class FlowStart(RequestBody):
    """What to start; once for each key."""

    model_config = shown_as(
        {"flow": "cancel_order", "arguments": {"order": "order-7"}, "key": "order-7"}
    )

    flow: FlowName
    arguments: JsonObject = Field(default_factory=dict)
    version: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    key: Code | None = None


class FlowStarted(ActionResult):
    """The run that was started, or that has the key."""

    id: int
    created: bool


class FlowRetry(RequestBody):
    """The failed node to run again; without one, all of them."""

    node: NodeName | None = None


class FlowSkip(RequestBody):
    """The node to count as succeeded."""

    node: NodeName


class FlowCancel(RequestBody):
    """Why, for those who read it later."""

    reason: Reason = ""


class FlowNodeBody(RequestBody):
    """A node of a template.

    In arguments `{"$result": "load"}` stands for the result of node load, with `"path": ["rows"]`
    for a part of it, and `{"$argument": "order"}` for an argument of the start.
    """

    name: NodeName
    kind: FlowName
    args: JsonList = Field(default_factory=list)
    kwargs: JsonObject = Field(default_factory=dict)
    trigger: Trigger = "all_success"
    when: When | None = None


class FlowNodeNew(FlowNodeBody):
    """A node to add to a run. In arguments `{"$result": "load"}` stands for the result of load."""

    after: Annotated[list[NodeName], Field(max_length=MOST_CHANGES)] = Field(default_factory=list)


class FlowEdit(RequestBody):
    """Changes to a run, made together or not at all. A node that has begun cannot be changed."""

    add: Annotated[list[FlowNodeNew], Field(max_length=MOST_CHANGES)] = Field(default_factory=list)
    link: Annotated[list[Edge], Field(max_length=MOST_CHANGES)] = Field(default_factory=list)
    unlink: Annotated[list[Edge], Field(max_length=MOST_CHANGES)] = Field(default_factory=list)


class TemplateSpec(RequestBody):
    """Nodes and edges."""

    nodes: Annotated[list[FlowNodeBody], Field(max_length=MOST_SAVED_NODES)]
    edges: Annotated[list[Edge], Field(max_length=MOST_SAVED_EDGES)] = Field(default_factory=list)


class Checked(View):
    """Whether a template can be saved, what is wrong with it, and the arguments of a start."""

    ok: bool
    problems: list[str]
    arguments: Names


@flow_api.get("/flows", response_model=answer(Listing[FlowRunView]))
def flows(
    console: ReadyConsole,
    flow: Annotated[str | None, Query(max_length=100, pattern=STORABLE)] = None,
    status: RunStatus | None = None,
    after: Annotated[str | None, Query(max_length=200, pattern=STORABLE)] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 50,
) -> Listing[FlowRunView]:
    """Runs that match, newest first; `after` is the `next` of the page before.

    A page may be short, or empty, and have a `next`: each call reads a bounded number of rows.
    """
    return view.page(
        console.app.flows.finder,
        kind=flow or None,
        status=None if status is None else Status.named(status),
        after=after,
        limit=limit,
    )


@flow_api.get("/flows/startable", response_model=answer(list[StartableView]))
def startable(console: ReadyConsole) -> list[StartableView]:
    """What can be started: declared flows, and templates."""
    return console.app.flow_template.startable()


@flow_api.post("/flows", responses=REFUSALS)
def start(
    body: FlowStart, console: ReadyConsole, log: RequestLog, once: RequestOnce
) -> FlowStarted:
    """Start a declared flow or a template."""
    arguments = json_text(body.arguments)[:LONGEST_TOLD]
    told = {"arguments": arguments, "version": body.version, "key": body.key}
    with log.record(Action.FLOW_START, body.flow, **told) as entry:
        handle: Any = console.app.flow_template.flow(body.flow, body.version)
        _try_to_draw(handle, body.arguments)
        made = once.answer(
            FlowStarted,
            lambda conn: _started(console, handle, body, conn),
            kind=body.flow,
            key=body.key,
        )
        entry.says(made.message)
    return made


@flow_api.get("/flows/{number}", responses=UNKNOWN, response_model=answer(FlowDetail))
def run(
    number: RunId,
    console: ReadyConsole,
    around: Annotated[str | None, Query(max_length=255, pattern=STORABLE)] = None,
) -> FlowDetail:
    """One run with its graph; of a large one the most urgent nodes, or those `around` one."""
    return view.show(console.app.flows.finder, number, around=around or None)


@flow_api.get("/flows/{number}/nodes", responses=UNKNOWN, response_model=answer(FlowNodePage))
def nodes(
    number: RunId,
    console: ReadyConsole,
    status: NodeStatus | None = None,
    prefix: Annotated[str, Query(max_length=255, pattern=STORABLE)] = "",
    after: Annotated[str, Query(max_length=255, pattern=STORABLE)] = "",
    limit: Annotated[int, Query(ge=1, le=MOST_NODES)] = 100,
) -> FlowNodePage:
    """Nodes of a run whose names begin with `prefix`, in the order of their names."""
    which = None if status is None else Status.named(status)
    wanted = NodeFilter(which, prefix, after, limit)
    return view.nodes(console.app.flows.finder, number, wanted)


@flow_api.get("/flows/{number}/node", responses=UNKNOWN, response_model=answer(FlowNodeDetail))
def node(
    number: RunId,
    name: Annotated[str, Query(min_length=1, max_length=255, pattern=STORABLE)],
    console: ReadyConsole,
) -> FlowNodeDetail:
    """One node, with its arguments, its result, its last errors and its neighbours."""
    return view.node(console.app.flows.finder, number, name)


@flow_api.get("/flows/{number}/export", responses=REFUSALS)
def export(number: RunId, console: ReadyConsole, form: Form = "mermaid") -> ExportOut:
    """The graph of a run, for documents and for other programs."""
    found = console.app.flows.ref(number)
    total = found.progress().total
    if total > MOST_EXPORTED:
        raise NotPossible(
            f"run {number} has {total:,} nodes, and at most {MOST_EXPORTED:,} are exported here; "
            f"use: windlass flow export {number}"
        )
    return _exported(found.graph(), form)


@flow_api.post("/flows/{number}/retry", responses=REFUSALS)
def retry(number: RunId, body: FlowRetry, console: ReadyConsole, log: RequestLog) -> ActionResult:
    """Run the failed nodes of a run again, or one of them."""
    with log.record(Action.FLOW_RETRY, str(number), node=body.node) as entry:
        count = _allowed(lambda: console.app.flows.ref(number).retry(body.node))
        if not count:
            raise NotPossible(f"no node of run {number} has failed; there is nothing to retry")
        message = entry.says(f"{count:,} nodes of run {number} begin again")
    return ActionResult(message=message, changed=count)


@flow_api.post("/flows/{number}/skip", responses=REFUSALS)
def skip(number: RunId, body: FlowSkip, console: ReadyConsole, log: RequestLog) -> ActionResult:
    """Count a node as succeeded, and continue."""
    with log.record(Action.FLOW_SKIP, str(number), node=body.node) as entry:
        _allowed(lambda: console.app.flows.ref(number).skip(body.node))
        message = entry.says(f"{body.node} of run {number} counts as succeeded")
    return ActionResult(message=message)


@flow_api.post("/flows/{number}/cancel", responses=REFUSALS)
def cancel(number: RunId, body: FlowCancel, console: ReadyConsole, log: RequestLog) -> ActionResult:
    """End a run: no other node begins."""
    with log.record(Action.FLOW_CANCEL, str(number), reason=body.reason) as entry:
        if not console.app.flows.ref(number).cancel(body.reason):
            raise NotPossible(f"run {number} has ended; there is nothing to cancel")
        message = entry.says(f"run {number} is cancelled")
    return ActionResult(message=message)


@flow_api.post("/flows/{number}/edit", responses=REFUSALS)
def edit(number: RunId, body: FlowEdit, console: ReadyConsole, log: RequestLog) -> ActionResult:
    """Add nodes, add or remove edges, where nodes have not begun; all of it, or nothing."""
    given = body.model_dump()
    told = {name: len(value) for name, value in given.items()}
    if not any(told.values()):
        raise BadInput("there is nothing to change; give add, link or unlink")
    names = [each.name for each in body.add[:MOST_TOLD]]
    with log.record(Action.FLOW_EDIT, str(number), **told, names=names) as entry:
        changes = msgspec.convert(given, RunEdit)
        console.app.flow_template.edit(console.app.flows.ref(number), changes)
        message = entry.says(f"run {number} is changed")
    return ActionResult(message=message, changed=sum(told.values()))


@template_api.get("/templates", response_model=VERSIONS)
def templates(console: ReadyConsole) -> list[TemplateView]:
    """The last version of every template."""
    return console.app.flow_template.listing()


@template_api.get("/templates/{name}", responses=UNKNOWN, response_model=answer(TemplateView))
def template(name: RunName, console: ReadyConsole, version: Version = None) -> TemplateView:
    """A version of a template; the last one by default."""
    return console.app.flow_template.row(name, version)


@template_api.get("/templates/{name}/versions", responses=UNKNOWN, response_model=VERSIONS)
def versions(
    name: RunName,
    console: ReadyConsole,
    before: Version = None,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 50,
) -> list[TemplateView]:
    """The versions of a template below `before`, newest first."""
    found = console.app.flow_template.versions(name, before=before, limit=limit)
    if not found and before is None:
        raise UnknownFlow(f"there is no template {name!r}")
    return found


@template_api.get("/templates/{name}/export", responses=UNKNOWN, name="export")
def export_template(
    name: RunName, console: ReadyConsole, version: Version = None, form: Form = "mermaid"
) -> ExportOut:
    """The graph of a template, for documents and for other programs."""
    found = console.app.flow_template.row(name, version)
    if form == "json":
        return ExportOut(format=form, text=json_text(found.spec))
    return _exported(console.app.flow_template.graph(found), form)


@template_api.post("/templates/{name}/check")
def check(name: RunName, body: TemplateSpec, console: ReadyConsole) -> Checked:
    """Whether a template could be saved; nothing is written."""
    try:
        found = console.app.flow_template.check(name, body.model_dump())
    except (BadInput, UnknownKind, UnknownFlow) as problem:
        return Checked(ok=False, problems=[str(problem)], arguments=())
    return Checked(ok=True, problems=[], arguments=tuple(found.arguments))


@template_api.post("/templates/{name}", responses=UNKNOWN, response_model=answer(TemplateView))
def save(name: RunName, body: TemplateSpec, console: ReadyConsole, log: RequestLog) -> TemplateView:
    """Save a template as a new version, if it has changed."""
    size = {"nodes": len(body.nodes), "edges": len(body.edges)}
    with log.record(Action.TEMPLATE_SAVE, name, **size) as entry:
        console.app.flow_template(name, body.model_dump())
        saved = console.app.flow_template.row(name)
        entry.says(f"{name} is saved as version {saved.version}")
    return saved


router = APIRouter()
router.include_router(flow_api)
router.include_router(template_api)


def _started(console: ReadyConsole, handle: Any, body: FlowStart, conn: object) -> FlowStarted:
    if body.key is not None or console.app.fleet.single is not None:
        # It has a home, and joins that transaction if it is there.
        conn = None
    run = handle.using(key=body.key, conn=conn).start(**body.arguments)
    message = (
        f"run {run.id} of {body.flow} is started"
        if run.created
        else f"{body.flow} with key {body.key} was already started as run {run.id}"
    )
    return FlowStarted(message=message, id=run.id, created=run.created)


def _exported(graph: FlowGraph, form: Format) -> ExportOut:
    if form == "json":
        text = json_text(graph.json())
    else:
        text = graph.mermaid() if form == "mermaid" else graph.dot()
    return ExportOut(format=form, text=text)


def _try_to_draw(handle: Any, arguments: dict[str, Any]) -> None:
    """Draw the flow first: an error of the user's own code means that the arguments do not fit."""
    try:
        handle.graph(**arguments)
    except WindlassError:
        raise
    except Exception as problem:
        raise BadFlow(
            f"flow {handle.kind!r} cannot be drawn with these arguments: "
            f"{type(problem).__name__}: {problem}"
        ) from problem


def _allowed(act: Callable[[], T]) -> T:
    """Answer 409 instead of 400: the state of the run does not allow it, the request is fine."""
    try:
        return act()
    except BadFlow as problem:
        raise NotPossible(str(problem)) from problem
