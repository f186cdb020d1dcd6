"""The API of templates: list their versions, check one, and save it as a new version."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from windlass.errors import BadInput, UnknownFlow, UnknownKind
from windlass.flow.operate.template import TemplateView
from windlass.flow.route.flow import Edge, ExportOut, FlowNodeBody, Form, exported
from windlass.view.action import Action
from windlass.web.json import json_text
from windlass.web.problem import problems
from windlass.web.request import ReadyConsole, RequestLog, RunName
from windlass.web.view import Names, RequestBody, View, answer

router = APIRouter(tags=["templates"])

MOST_NODES = 1_000
MOST_EDGES = 5_000
MOST_VERSIONS = 200
Version = Annotated[int | None, Query(ge=1, le=2**31 - 1)]
VERSIONS = answer(list[TemplateView], name="TemplateVersion", without=("spec",))


class TemplateSpec(RequestBody):
    """Nodes and edges."""

    nodes: Annotated[list[FlowNodeBody], Field(max_length=MOST_NODES)]
    edges: Annotated[list[Edge], Field(max_length=MOST_EDGES)] = Field(default_factory=list)


class Checked(View):
    """Whether a template can be saved, what is wrong with it, and the arguments of a start."""

    ok: bool
    problems: list[str]
    arguments: Names


@router.get("/templates", response_model=VERSIONS)
def templates(console: ReadyConsole) -> list[TemplateView]:
    """The last version of every template."""
    return console.app.flow_template.listing()


@router.get("/templates/{name}", responses=problems(404), response_model=answer(TemplateView))
def template(name: RunName, console: ReadyConsole, version: Version = None) -> TemplateView:
    """A version of a template; the last one by default."""
    return console.app.flow_template.row(name, version)


@router.get("/templates/{name}/versions", responses=problems(404), response_model=VERSIONS)
def versions(
    name: RunName,
    console: ReadyConsole,
    before: Version = None,
    limit: Annotated[int, Query(ge=1, le=MOST_VERSIONS)] = 50,
) -> list[TemplateView]:
    """The versions of a template below `before`, newest first."""
    found = console.app.flow_template.versions(name, before=before, limit=limit)
    if not found and before is None:
        raise UnknownFlow(f"there is no template {name!r}")
    return found


@router.get("/templates/{name}/export", responses=problems(404))
def export(
    name: RunName, console: ReadyConsole, version: Version = None, form: Form = "mermaid"
) -> ExportOut:
    """The graph of a template, for documents and for other programs."""
    found = console.app.flow_template.row(name, version)
    if form == "json":
        return ExportOut(format=form, text=json_text(found.spec))
    return exported(console.app.flow_template.graph(found), form)


@router.post("/templates/{name}/check")
def check(name: RunName, body: TemplateSpec, console: ReadyConsole) -> Checked:
    """Whether a template could be saved; nothing is written."""
    try:
        found = console.app.flow_template.check(name, body.model_dump())
    except (BadInput, UnknownKind, UnknownFlow) as problem:
        return Checked(ok=False, problems=[str(problem)], arguments=())
    return Checked(ok=True, problems=[], arguments=tuple(found.arguments))


@router.post("/templates/{name}", responses=problems(404), response_model=answer(TemplateView))
def save(name: RunName, body: TemplateSpec, console: ReadyConsole, log: RequestLog) -> TemplateView:
    """Save a template as a new version, if it has changed."""
    size = {"nodes": len(body.nodes), "edges": len(body.edges)}
    with log.record(Action.TEMPLATE_SAVE, name, **size) as entry:
        console.app.flow_template(name, body.model_dump())
        saved = console.app.flow_template.row(name)
        entry.says(f"{name} is saved as version {saved.version}")
    return saved
