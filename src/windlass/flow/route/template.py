"""Templates: flows that were drawn, each version of them; check one, save it as a new version."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from windlass.errors import BadInput, UnknownFlow, UnknownKind
from windlass.flow.model.template import read_template
from windlass.flow.route.flow import (
    Edge,
    ExportOut,
    FlowName,
    Form,
    NodeName,
    Trigger,
    When,
    exported,
)
from windlass.flow.store.template import TemplateRow
from windlass.watch.audit.model import Action
from windlass.web.json import JsonList, JsonObject
from windlass.web.problem import problems
from windlass.web.request import ReadyConsole, RequestLog, RunName
from windlass.web.view import Body, Moment, Names, View

router = APIRouter(tags=["templates"])

MOST_NODES = 1_000
MOST_EDGES = 5_000
MOST_VERSIONS = 200
Version = Annotated[int | None, Query(ge=1, le=2**31 - 1)]


class TemplateNode(Body):
    """A node on paper.

    In arguments `{"$result": "load"}` stands for what node load returned, with `"path": ["rows"]`
    for a part of it, and `{"$argument": "order"}` for an argument of the start.
    """

    name: NodeName
    kind: FlowName
    args: JsonList = Field(default_factory=list)
    kwargs: JsonObject = Field(default_factory=dict)
    trigger: Trigger = "all_success"
    when: When | None = None


class TemplateSpec(Body):
    """Nodes and edges."""

    nodes: Annotated[list[TemplateNode], Field(max_length=MOST_NODES)]
    edges: Annotated[list[Edge], Field(max_length=MOST_EDGES)] = Field(default_factory=list)

    def spec(self) -> dict[str, object]:
        """As the template is kept."""
        return self.model_dump()


class NodeSpec(View):
    """A node of a template, as it was saved."""

    name: str
    kind: str
    args: list[Any]
    kwargs: dict[str, Any]
    trigger: str
    when: str | None


class SpecOut(View):
    """The graph of a template, as it was saved."""

    nodes: list[NodeSpec]
    edges: list[tuple[str, str]]


class VersionOut(View):
    """A version of a template, and the arguments that a start of it is to be given."""

    name: str
    version: int
    saved_at: Moment
    nodes: int
    edges: int
    arguments: Names


class TemplateOut(VersionOut):
    """A version of a template with its graph."""

    spec: SpecOut


class Checked(View):
    """Whether a template can be saved; what is wrong with it, and what a start is to be given."""

    ok: bool
    problems: list[str]
    arguments: Names


@router.get("/templates")
def templates(console: ReadyConsole) -> list[VersionOut]:
    """The last version of every template."""
    return [_version(row) for row in console.app.flow_template.listing()]


@router.get("/templates/{name}", responses=problems(404))
def template(name: RunName, console: ReadyConsole, version: Version = None) -> TemplateOut:
    """A version of a template, or the last one."""
    return _template(console.app.flow_template.row(name, version))


@router.get("/templates/{name}/versions", responses=problems(404))
def versions(
    name: RunName,
    console: ReadyConsole,
    before: Version = None,
    limit: Annotated[int, Query(ge=1, le=MOST_VERSIONS)] = 50,
) -> list[VersionOut]:
    """The versions of a template, newest first, below one of them."""
    found = console.app.flow_template.versions(name, before=before, limit=limit)
    if not found and before is None:
        raise UnknownFlow(f"there is no template {name!r}")
    return [_version(row) for row in found]


@router.get("/templates/{name}/export", responses=problems(404))
def export(
    name: RunName, console: ReadyConsole, version: Version = None, form: Form = "mermaid"
) -> ExportOut:
    """The graph of a template, for documents and for other programs."""
    row = console.app.flow_template.row(name, version)
    if form == "json":
        return ExportOut(format=form, text=row.spec)
    return exported(console.app.flow_template.graph(row), form)


@router.post("/templates/{name}/check")
def check(name: RunName, body: TemplateSpec, console: ReadyConsole) -> Checked:
    """Whether a template could be saved; nothing is written."""
    try:
        found = console.app.flow_template.check(name, body.spec())
    except (BadInput, UnknownKind, UnknownFlow) as problem:
        return Checked(ok=False, problems=[str(problem)], arguments=())
    return Checked(ok=True, problems=[], arguments=tuple(found.arguments))


@router.post("/templates/{name}", responses=problems(404))
def save(name: RunName, body: TemplateSpec, console: ReadyConsole, log: RequestLog) -> TemplateOut:
    """Save a template as a new version, if it has changed."""
    size = {"nodes": len(body.nodes), "edges": len(body.edges)}
    with log.record(Action.TEMPLATE_SAVE, name, **size) as entry:
        console.app.flow_template(name, body.spec())
        row = console.app.flow_template.row(name)
        entry.says(f"{name} is saved as version {row.version}")
    return _template(row)


def _version(row: TemplateRow) -> VersionOut:
    return VersionOut.model_validate(_facts(row))


def _template(row: TemplateRow) -> TemplateOut:
    spec = read_template(row.name, row.spec)
    return TemplateOut.model_validate({**_facts(row), "spec": SpecOut.model_validate(spec)})


def _facts(row: TemplateRow) -> dict[str, object]:
    found = read_template(row.name, row.spec)
    return {
        "name": row.name,
        "version": row.version,
        "saved_at": row.created_at,
        "nodes": len(found.nodes),
        "edges": len(found.edges),
        "arguments": tuple(found.arguments),
    }
