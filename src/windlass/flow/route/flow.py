"""Flows: their runs, the graph of a run and its nodes, and starting, changing and ending runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field

from windlass.core.task.kind import Kind
from windlass.errors import BadFlow, BadInput, NotPossible, WindlassError
from windlass.flow.model.node import arguments_of, head_of
from windlass.flow.model.run import FlowGraph
from windlass.flow.operate import edit as flow_edit
from windlass.flow.operate import look as flow_look
from windlass.flow.operate.look import NodeLine, RunLine
from windlass.flow.store.flow import RunRow
from windlass.operate.kind.route import ArgumentOut, arguments_out
from windlass.value.status import FINAL, Status
from windlass.watch.audit.model import Action
from windlass.watch.audit.operate import LONGEST_TOLD
from windlass.web.json import JsonList, JsonObject, json_text
from windlass.web.problem import problems
from windlass.web.request import ReadyConsole, RequestLog
from windlass.web.view import (
    STORABLE,
    Body,
    Code,
    Done,
    FailureOut,
    Moment,
    Names,
    Reason,
    StatusName,
    View,
    many,
)

router = APIRouter(tags=["flows"])

MOST_LISTED = 200
MOST_NODES = 500
MOST_CHANGES = 200
# What is larger than this is exported by `windlass flow export`.
MOST_EXPORTED = 10_000
LONGEST_ERROR = 300
# How much of what was given is in the audit log.
MOST_TOLD = 20

RunId = Annotated[int, Path(ge=-(2**63), le=2**63 - 1)]
RunStatus = Literal["running", "succeeded", "failed", "cancelled"]
NodeStatus = Literal[
    "waiting", "running", "succeeded", "failed", "blocked", "external", "cancelled"
]
NodeName = Annotated[str, Field(min_length=1, max_length=255, pattern=STORABLE)]
FlowName = Annotated[str, Field(min_length=1, max_length=100, pattern=STORABLE)]
Trigger = Literal["all_success", "all_done", "any_success"]
When = Annotated[str, Field(max_length=1_000, pattern=STORABLE)]
Edge = Annotated[tuple[NodeName, NodeName], Field(description="From a node, to one that waits.")]
Format = Literal["mermaid", "dot", "json"]
Form = Annotated[Format, Query(alias="format")]


class FlowRunOut(View):
    """A run. `left` nodes have not ended; `nodes` is counted up to 1,000, more is shown as 1,001.

    `template` and `version` are those of the template that it is a run of.
    """

    id: int
    flow: str
    key: str | None
    status: StatusName
    nodes: int
    left: int
    template: str | None
    version: int | None
    created_at: Moment
    finished_at: Moment | None
    error: str | None


class FlowPage(View):
    """Runs, newest first.

    `next` is the cursor of what follows; null at the end. A page may be short, or empty, and have a
    `next`: only so many rows are looked at in one call. `missing` names shards that do not answer.
    """

    items: list[FlowRunOut]
    next: str | None
    missing: Names


class FlowNodeOut(View):
    """A node of a run. It waits for `open_slots` of its `slots`; `rule` says what fills them."""

    id: int
    name: str
    kind: str
    status: StatusName
    rule: str
    slots: int
    open_slots: int
    attempt: int
    due_at: Moment | None
    started_at: Moment | None
    finished_at: Moment | None
    error: str | None
    is_skipped: bool


class FlowDetail(View):
    """A run and its graph. If that is too large to be drawn, only some nodes are in it.

    `inside` are edges from nodes in nested flows to the nodes that those are.
    """

    run: FlowRunOut
    arguments: str
    counts: dict[str, int]
    total: int
    is_whole: bool
    nodes: list[FlowNodeOut]
    edges: list[tuple[str, str]]
    inside: list[tuple[str, str]]


class FlowNodePage(View):
    """Nodes in the order of their names; `next` is the `after` of what follows, null at the end."""

    items: list[FlowNodeOut]
    next: str | None


class FlowNodeDetail(View):
    """A node with everything: `arguments` and `result` are JSON.

    `handle` is the name by which an external system knows it. Of what it waits for, and of what
    waits for it, only some may be listed.
    """

    node: FlowNodeOut
    when: str | None
    arguments: str
    result: str | None
    handle: str | None
    failures: list[FailureOut]
    waits_for: list[FlowNodeOut]
    before: list[FlowNodeOut]


class StartableOut(View):
    """What can be started: a declared flow, or the last version of a template."""

    name: str
    version: int | None
    summary: str
    arguments: list[ArgumentOut]


class ExportOut(View):
    """A graph as text."""

    format: Format
    text: str


class FlowStart(Body):
    """What to start; under a key only once."""

    flow: FlowName
    arguments: JsonObject = Field(default_factory=dict)
    version: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    key: Code | None = None


class FlowStarted(Done):
    """The run that was started, or that has the key already."""

    id: int


class FlowRetry(Body):
    """Which failed node is to run again; all of them without one."""

    node: NodeName | None = None


class FlowSkip(Body):
    """Which node counts as succeeded."""

    node: NodeName


class FlowCancel(Body):
    """Why, for those who look later."""

    reason: Reason = ""


class FlowNodeNew(Body):
    """A node to add to a run. In arguments `{"$result": "load"}` stands for what load returned."""

    name: NodeName
    kind: FlowName
    args: JsonList = Field(default_factory=list)
    kwargs: JsonObject = Field(default_factory=dict)
    after: Annotated[list[NodeName], Field(max_length=MOST_CHANGES)] = Field(default_factory=list)
    trigger: Trigger = "all_success"
    when: When | None = None


class FlowEdit(Body):
    """Changes to a run, made together or not at all. What has begun cannot be changed."""

    add: Annotated[list[FlowNodeNew], Field(max_length=MOST_CHANGES)] = Field(default_factory=list)
    link: Annotated[list[Edge], Field(max_length=MOST_CHANGES)] = Field(default_factory=list)
    unlink: Annotated[list[Edge], Field(max_length=MOST_CHANGES)] = Field(default_factory=list)


@router.get("/flows")
def flows(
    console: ReadyConsole,
    flow: Annotated[str | None, Query(max_length=100, pattern=STORABLE)] = None,
    status: RunStatus | None = None,
    after: Annotated[str | None, Query(max_length=200, pattern=STORABLE)] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 50,
) -> FlowPage:
    """Runs that match, newest first; `after` is the `next` of the page before."""
    found = flow_look.page(
        console.app.fleet,
        console.app.registry,
        kind=flow or None,
        status=None if status is None else Status.named(status),
        after=after,
        limit=limit,
    )
    return FlowPage(items=run_views(found.lines), next=found.next, missing=found.missing)


@router.get("/flows/startable")
def startable(console: ReadyConsole) -> list[StartableOut]:
    """What can be started: declared flows, and templates."""
    kinds = [kind for kind in console.app.registry.kinds.values() if kind.draw is not None]
    declared = [_startable(kind) for kind in sorted(kinds, key=lambda kind: kind.name)]
    templates = [
        StartableOut(
            name=row.name,
            version=row.version,
            summary="",
            arguments=[
                ArgumentOut(name=name, type="any", required=True) for name in found.arguments
            ],
        )
        for row, found in console.app.flow_template.read()
    ]
    return declared + templates


@router.post("/flows", responses=problems(404, 409))
def start(body: FlowStart, console: ReadyConsole, log: RequestLog) -> FlowStarted:
    """FlowStart a declared flow or a template."""
    arguments = json_text(body.arguments)[:LONGEST_TOLD]
    told = {"arguments": arguments, "version": body.version, "key": body.key}
    with log.record(Action.FLOW_START, body.flow, **told) as entry:
        handle: Any = console.app.flow_template.flow(body.flow, body.version)
        _try_to_draw(handle, body.arguments)
        starter = handle if body.key is None else handle.using(key=body.key)
        number = starter.start(**body.arguments).id
        return FlowStarted(message=entry.says(f"run {number} of {body.flow} is started"), id=number)


@router.get("/flows/{number}", responses=problems(404))
def run(
    number: RunId,
    console: ReadyConsole,
    around: Annotated[str | None, Query(max_length=255, pattern=STORABLE)] = None,
) -> FlowDetail:
    """One run with its graph; of a large one the most urgent nodes, or those `around` one."""
    found = flow_look.show(console.app.flows, number, around=around or None)
    total = sum(found.counts.values())
    return FlowDetail(
        run=_run(found.run, total),
        arguments=json_text(arguments_of(found.run.payload)),
        counts={str(status): count for status, count in found.counts.items()},
        total=total,
        is_whole=found.is_whole,
        nodes=_nodes(found.nodes),
        edges=found.edges,
        inside=found.inside,
    )


@router.get("/flows/{number}/nodes", responses=problems(404))
def nodes(
    number: RunId,
    console: ReadyConsole,
    status: NodeStatus | None = None,
    prefix: Annotated[str, Query(max_length=255, pattern=STORABLE)] = "",
    after: Annotated[str, Query(max_length=255, pattern=STORABLE)] = "",
    limit: Annotated[int, Query(ge=1, le=MOST_NODES)] = 100,
) -> FlowNodePage:
    """Nodes of a run whose names begin with `prefix`, in the order of their names."""
    found = flow_look.nodes(
        console.app.flows,
        number,
        status=None if status is None else Status.named(status),
        prefix=prefix,
        after=after,
        limit=limit,
    )
    following = found[-1].row.node if len(found) == limit else None
    return FlowNodePage(items=_nodes(found), next=following)


@router.get("/flows/{number}/node", responses=problems(404))
def node(
    number: RunId,
    name: Annotated[str, Query(min_length=1, max_length=255, pattern=STORABLE)],
    console: ReadyConsole,
) -> FlowNodeDetail:
    """One node, with its arguments, its result, its last errors and its neighbours."""
    found = flow_look.node(console.app.flows, number, name)
    return FlowNodeDetail(
        node=_node(found.node, whole=True),
        when=found.when,
        arguments=found.arguments,
        result=found.result,
        handle=found.handle,
        failures=many(FailureOut, found.failures),
        waits_for=_nodes(found.waits_for),
        before=_nodes(found.before),
    )


@router.get("/flows/{number}/export", responses=problems(404, 409))
def export(number: RunId, console: ReadyConsole, form: Form = "mermaid") -> ExportOut:
    """The graph of a run, for documents and for other programs."""
    total = console.app.flows.progress(number).total
    if total > MOST_EXPORTED:
        raise NotPossible(
            f"run {number} has {total:,} nodes, and at most {MOST_EXPORTED:,} are exported here; "
            f"use: windlass flow export {number}"
        )
    return exported(console.app.flows.graph(number), form)


@router.post("/flows/{number}/retry", responses=problems(404, 409))
def retry(number: RunId, body: FlowRetry, console: ReadyConsole, log: RequestLog) -> Done:
    """Have the failed nodes of a run, or one of them, run again."""
    with log.record(Action.FLOW_RETRY, str(number), node=body.node) as entry:
        count = _allowed(lambda: console.app.flows.retry(number, body.node))
        if not count:
            raise NotPossible(f"no node of run {number} has failed; there is nothing to retry")
        message = entry.says(f"{count:,} nodes of run {number} begin again")
    return Done(message=message, changed=count)


@router.post("/flows/{number}/skip", responses=problems(404, 409))
def skip(number: RunId, body: FlowSkip, console: ReadyConsole, log: RequestLog) -> Done:
    """Count a node as succeeded, and go on."""
    with log.record(Action.FLOW_SKIP, str(number), node=body.node) as entry:
        _allowed(lambda: console.app.flows.skip(number, body.node))
        message = entry.says(f"{body.node} of run {number} counts as succeeded")
    return Done(message=message)


@router.post("/flows/{number}/cancel", responses=problems(404, 409))
def cancel(number: RunId, body: FlowCancel, console: ReadyConsole, log: RequestLog) -> Done:
    """End a run: nothing more begins."""
    with log.record(Action.FLOW_CANCEL, str(number), reason=body.reason) as entry:
        if not console.app.flows.cancel(number, body.reason):
            raise NotPossible(f"run {number} has ended; there is nothing to cancel")
        message = entry.says(f"run {number} is cancelled")
    return Done(message=message)


@router.post("/flows/{number}/edit", responses=problems(404, 409))
def edit(number: RunId, body: FlowEdit, console: ReadyConsole, log: RequestLog) -> Done:
    """Add nodes, add or remove edges, where nodes have not begun; all of it, or nothing."""
    changes = flow_edit.Changes(
        add=[flow_edit.NewNode(**each.model_dump()) for each in body.add],
        link=body.link,
        unlink=body.unlink,
    )
    if changes.is_empty:
        raise BadInput("there is nothing to change; give add, link or unlink")
    told = {name: len(value) for name, value in body.model_dump().items()}
    names = [each.name for each in body.add[:MOST_TOLD]]
    with log.record(Action.FLOW_EDIT, str(number), **told, names=names) as entry:
        flow_edit.edit(console.app.flows, console.app.flow_template, number, changes)
        message = entry.says(f"run {number} is changed")
    return Done(message=message, changed=sum(told.values()))


def run_views(lines: Iterable[RunLine]) -> list[FlowRunOut]:
    """Runs as the API shows them."""
    return [_run(line.run, line.nodes) for line in lines]


def exported(graph: FlowGraph, form: Format) -> ExportOut:
    """A graph as text."""
    if form == "json":
        text = json_text(graph.json())
    else:
        text = graph.mermaid() if form == "mermaid" else graph.dot()
    return ExportOut(format=form, text=text)


def _run(row: RunRow, nodes: int) -> FlowRunOut:
    head = head_of(row.payload)
    return FlowRunOut.model_validate(
        {
            "id": row.id,
            "flow": row.kind,
            "key": row.key,
            "status": str(row.status),
            "nodes": nodes,
            "left": row.left if row.status not in FINAL else 0,
            "template": None if head is None else head.template,
            "version": None if head is None else head.version,
            "created_at": row.created_at,
            "finished_at": row.finished_at,
            "error": row.remark,
        }
    )


def _nodes(lines: Iterable[NodeLine]) -> list[FlowNodeOut]:
    return [_node(line) for line in lines]


def _node(line: NodeLine, *, whole: bool = False) -> FlowNodeOut:
    row = line.row
    error = row.remark if row.status in (Status.FAILED, Status.CANCELLED) else None
    return FlowNodeOut.model_validate(
        {
            "id": row.id,
            "name": row.node,
            "kind": line.kind,
            "status": str(row.status),
            "rule": str(line.slots.rule),
            "slots": line.slots.total,
            "open_slots": row.open_slots if row.status not in FINAL else 0,
            "attempt": row.attempt,
            "due_at": row.due_at,
            "started_at": row.started_at,
            "finished_at": row.finished_at,
            "error": error if whole or error is None else error[:LONGEST_ERROR],
            "is_skipped": line.is_skipped,
        }
    )


def _startable(kind: Kind) -> StartableOut:
    summary = (kind.draw.__doc__ or "").strip().partition("\n")[0]
    return StartableOut(
        name=kind.name, version=None, summary=summary, arguments=arguments_out(kind)
    )


def _try_to_draw(handle: Any, arguments: dict[str, Any]) -> None:
    """Have what the user's own code refuses told as what it is: the arguments do not fit."""
    try:
        handle.graph(**arguments)
    except WindlassError:
        raise
    except Exception as problem:
        raise BadFlow(
            f"flow {handle.kind!r} cannot be drawn with these arguments: "
            f"{type(problem).__name__}: {problem}"
        ) from problem


def _allowed(act: Any) -> Any:
    """What a run does not allow as it is now is a matter of its state, not of what was asked."""
    try:
        return act()
    except BadFlow as problem:
        raise NotPossible(str(problem)) from problem
