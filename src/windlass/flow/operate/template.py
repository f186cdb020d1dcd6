"""Templates: flows as JSON that are saved, versioned and started like declared flows.

A node of a flow can be a template. It is a task of the kind TEMPLATE, whose arguments have the name
and the version: any worker reads the template from the database and draws it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any, cast

import msgspec

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.current import current
from windlass.core.task.kind import TEMPLATE, Kind, Registry, check_kind_name, make_kind
from windlass.core.task.option import Options
from windlass.errors import BadArgument, BadFlow, UnknownFlow
from windlass.flow.declare import (
    Argument,
    Draft,
    Drawing,
    Edit,
    RunEdit,
    Template,
    draw_node,
    draw_of,
    is_open,
    read_template,
    version_of,
)
from windlass.flow.engine import expand
from windlass.flow.model.run import FlowGraph
from windlass.flow.operate.flow import Flow, FlowDeclarer, make_flow
from windlass.flow.operate.run import FlowRun
from windlass.flow.store import template as store
from windlass.flow.store.template import TemplateRow
from windlass.value.payload import ArgumentView, argument_views
from windlass.view.field import Moment


@dataclass(frozen=True)
class TemplateView:
    """A version of a template, and the arguments that a start of it needs."""

    name: str
    version: int
    saved_at: Moment
    nodes: int
    edges: int
    arguments: tuple[str, ...]
    spec: Template


@dataclass(frozen=True)
class StartableView:
    """What can be started: a declared flow, or the last version of a template."""

    name: str
    version: int | None
    summary: str
    arguments: list[ArgumentView]


class Templates:
    """`app.flow_template`: saves templates, and gives handles that start them."""

    def __init__(self, fleet: Fleet, registry: Registry, flows: FlowDeclarer) -> None:
        self._fleet = fleet
        self._registry = registry
        self._flows = flows
        registry.own[TEMPLATE] = make_kind(self._run, Options(name=TEMPLATE, retries=3))

    def __call__(self, name: str, spec: object) -> Flow[...]:
        """Check a template, save it as a new version if it has changed; the handle of it."""
        text = msgspec.json.encode(self.check(name, spec)).decode()

        def save(shard: Shard) -> TemplateRow:
            dialect, now = shard.database.dialect, shard.clock.now()
            return shard.database.write(
                lambda connection: store.save(connection, dialect, name, spec=text, now=now)
            )

        saved = self._fleet.everywhere(save, what=f"template {name!r} is saved")
        return self._handle(_view(saved[0]))

    def check(self, name: str, spec: object) -> Template:
        """The template, if it can be saved under this name; nothing is written."""
        check_kind_name(name)
        if name.isdecimal():
            raise BadFlow(f"a template cannot be named {name!r}, which is the id of a run")
        if name in self._registry.kinds:
            raise BadFlow(f"{name!r} is declared in code; give the template another name")
        template = read_template(name, spec)
        self._fleet.prepare()
        for draft in self._drawn(template):
            try:
                draft.kind.arguments.check_open(draft.args, draft.kwargs, is_open=is_open)
            except BadArgument as problem:
                raise BadFlow(f"template {name!r}, node {draft.shape.name!r}: {problem}") from None
        return template

    def edit(self, run: FlowRun, changes: RunEdit) -> None:
        """Make all of the changes to a flow run, or none."""
        self.read_nested(node.kind for node in changes.add)

        def change(edit: Edit) -> None:
            for node in changes.add:
                draw_node(edit, node, after=node.after, arguments={})
            for parent, child in changes.unlink:
                edit.unlink(parent, child)
            for parent, child in changes.link:
                edit.link(parent, child)

        run.edit(change)

    def get(self, name: str, version: int | None = None) -> Flow[...]:
        """The handle of a saved template."""
        return self._handle(self.row(name, version))

    def flow(self, name: str, version: int | None = None) -> Flow[...]:
        """The handle of a declared flow, or of a template."""
        if version is None and name in self._flows.names:
            return self._flows.get(name)
        return self._handle(self.row(name, version))

    def row(self, name: str, version: int | None = None) -> TemplateView:
        """A version of a template; the last one by default."""
        self._fleet.prepare()
        for shard in self._fleet.shards:
            found = shard.database.read(lambda connection: store.latest(connection, name, version))
            if found is not None:
                return _view(found)
        which = "" if version is None else f" version {version}"
        raise UnknownFlow(
            f"there is no template {name!r}{which}; "
            f"declared flows: {', '.join(self._flows.names) or 'none'}"
        )

    def listing(self) -> list[TemplateView]:
        """The last version of every template."""
        self._fleet.prepare()
        found = self._fleet.fan_out(lambda shard: shard.database.read(store.listing))
        return [_view(row) for row in found.values[0]]

    def startable(self) -> list[StartableView]:
        """The declared flows, then the last version of every template."""
        found: list[StartableView] = []
        for name in self._flows.names:
            kind = self._registry.kinds[name]
            summary = (draw_of(kind).__doc__ or "").strip().partition("\n")[0]
            arguments = argument_views(kind.arguments.signature)
            found.append(StartableView(name, None, summary, arguments))
        for each in self.listing():
            arguments = [ArgumentView(name, "any", required=True) for name in each.arguments]
            found.append(StartableView(each.name, each.version, "", arguments))
        return found

    def versions(self, name: str, *, before: int | None = None, limit: int) -> list[TemplateView]:
        """The versions of a template, newest first."""
        self._fleet.prepare()
        found = self._fleet.fan_out(
            lambda shard: shard.database.read(
                lambda connection: store.versions(connection, name, before=before, limit=limit)
            )
        )
        return [_view(row) for row in max(found.values, key=len, default=[])]

    def read_nested(self, kinds: Iterable[str]) -> None:
        """Load the last versions of the templates among these kinds."""
        known = self._registry.templates
        for name in set(kinds) - self._registry.kinds.keys():
            try:
                template = self.row(name)
            except UnknownFlow:
                continue
            if name not in known or version_of(known[name]) != template.version:
                known[name] = self._kind(template)

    def graph(self, template: TemplateView) -> FlowGraph:
        """The nodes and edges of a template, for pictures."""
        drafts = self._drawn(template.spec)
        return FlowGraph.drawn([(draft.shape, (), {}) for draft in drafts], template.name)

    def _handle(self, template: TemplateView) -> Flow[...]:
        self._registry.templates[template.name] = self._kind(template)
        return self._flows.get(template.name)

    def _kind(self, template: TemplateView) -> Kind:
        spec = template.spec

        def draw(flow: Drawing, /, **arguments: Any) -> None:
            self.read_nested(node.kind for node in spec.nodes)
            for node, after in spec.ordered():
                draw_node(flow, node, after=after, arguments=arguments)

        named = [Parameter(name, Parameter.KEYWORD_ONLY) for name in spec.arguments]
        drawing = Parameter("_drawing", Parameter.POSITIONAL_ONLY)
        draw.__name__ = template.name
        draw.__annotations__ = {}
        cast(Any, draw).__signature__ = Signature([drawing, *named])
        return make_flow(draw, Options(name=template.name), version=template.version)

    def _run(self, template: str, version: int, arguments: dict[str, Any]) -> object:
        draw = draw_of(self._kind(self.row(template, version)))
        return expand(current.get(), draw, **arguments)

    def _drawn(self, template: Template) -> list[Draft]:
        """The nodes of a template, with the arguments of a start left open."""
        self.read_nested(node.kind for node in template.nodes)
        drawing = Drawing(self._registry)
        arguments = {each: Argument(each) for each in template.arguments}
        for node, after in template.ordered():
            draw_node(drawing, node, after=after, arguments=arguments)
        return drawing.checked()


def _view(row: TemplateRow) -> TemplateView:
    spec = read_template(row.name, row.spec)
    return TemplateView(
        name=row.name,
        version=row.version,
        saved_at=row.created_at,
        nodes=len(spec.nodes),
        edges=len(spec.edges),
        arguments=tuple(spec.arguments),
        spec=spec,
    )
