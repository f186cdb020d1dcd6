"""Templates: flows as JSON that are saved, versioned and started like declared ones.

A node of a flow may be a template, too. It is then a task of the kind TEMPLATE, which has the name
and the version: any worker reads it from the database and draws it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from inspect import Parameter, Signature
from typing import Any, cast

import msgspec
from sqlalchemy.exc import IntegrityError

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.current import current
from windlass.core.task.kind import TEMPLATE, Kind, Options, Registry, check_kind_name, make_kind
from windlass.errors import BadArgument, BadFlow, UnknownFlow
from windlass.flow.declare import Draft, Drawing, Flow
from windlass.flow.engine import expand
from windlass.flow.model.run import FlowGraph
from windlass.flow.model.template import Argument, Template, filled_in, is_open, read_template
from windlass.flow.operate.declare import FlowDeclarer, make_flow
from windlass.flow.store import template as store
from windlass.flow.store.template import TemplateRow

# How often a save is tried that others come before.
SAVES = 20


class Templates:
    """`app.flow_template`: saves templates, and gives handles of them."""

    def __init__(self, fleet: Fleet, registry: Registry, flows: FlowDeclarer) -> None:
        self._fleet = fleet
        self._registry = registry
        self._flows = flows
        registry.own[TEMPLATE] = make_kind(self._run, Options(name=TEMPLATE, retries=3))

    def __call__(self, name: str, spec: object) -> Flow[...]:
        """Check a template, save it as a new version if it has changed, and give its handle."""
        text = msgspec.json.encode(self.check(name, spec)).decode()
        saved = self._fleet.everywhere(
            lambda shard: _save(shard, name, text), what=f"template {name!r} is saved"
        )
        return self._handle(saved[0])

    def check(self, name: str, spec: object) -> Template:
        """The template, if it can be saved under that name and run; nothing is written."""
        check_kind_name(name)
        if name.isdecimal():
            raise BadFlow(f"a template cannot be named {name!r}, which is the id of a run")
        if name in self._registry.kinds:
            raise BadFlow(f"{name!r} is declared in code; give the template another name")
        template = read_template(name, spec)
        self._fleet.prepare()
        self._check(name, template)
        return template

    def get(self, name: str, version: int | None = None) -> Flow[...]:
        """The handle of a template that was saved before."""
        return self._handle(self.row(name, version))

    def flow(self, name: str, version: int | None = None) -> Flow[...]:
        """The handle of a declared flow, or else of a template."""
        if version is None and name in self._flows.names:
            return self._flows.get(name)
        return self._handle(self.known(name, version))

    def known(self, name: str, version: int | None = None) -> TemplateRow:
        """`row`, for those who may mean a declared flow."""
        try:
            return self.row(name, version)
        except UnknownFlow:
            declared = ", ".join(self._flows.names) or "none"
            which = "" if version is None else f" version {version} of"
            raise UnknownFlow(
                f"{name!r} is neither a declared flow nor{which} a template; declared: {declared}"
            ) from None

    def row(self, name: str, version: int | None = None) -> TemplateRow:
        """A version of a template, or the last one."""
        self._fleet.prepare()
        for shard in self._fleet.shards:
            found = shard.database.read(lambda connection: store.latest(connection, name, version))
            if found is not None:
                return found
        which = "" if version is None else f" version {version}"
        raise UnknownFlow(f"there is no template {name!r}{which}; import it first")

    def listing(self) -> list[TemplateRow]:
        """The last version of every template."""
        self._fleet.prepare()
        return self._fleet.fan_out(lambda shard: shard.database.read(store.listing)).values[0]

    def read(self) -> list[tuple[TemplateRow, Template]]:
        """`listing`, each with what it says."""
        return [(row, read_template(row.name, row.spec)) for row in self.listing()]

    def versions(self, name: str, *, before: int | None = None, limit: int) -> list[TemplateRow]:
        """The versions of a template, newest first."""
        self._fleet.prepare()
        found = self._fleet.fan_out(
            lambda shard: shard.database.read(
                lambda connection: store.versions(connection, name, before=before, limit=limit)
            )
        )
        return max(found.values, key=len, default=[])

    def read_nested(self, kinds: Iterable[str]) -> None:
        """Know the last versions of the templates among these kinds."""
        known = self._registry.templates
        for name in set(kinds) - self._registry.kinds.keys():
            try:
                row = self.row(name)
            except UnknownFlow:
                continue
            if name not in known or known[name].version != row.version:
                known[name] = self._kind(row)

    def graph(self, row: TemplateRow) -> FlowGraph:
        """The nodes of a template with their edges, for pictures."""
        drafts = self._drawn(read_template(row.name, row.spec))
        return FlowGraph.drawn([(draft.shape, (), {}) for draft in drafts], row.name)

    def _handle(self, row: TemplateRow) -> Flow[...]:
        self._registry.templates[row.name] = self._kind(row)
        return self._flows.get(row.name)

    def _kind(self, row: TemplateRow) -> Kind:
        template = read_template(row.name, row.spec)

        def draw(flow: Drawing, /, **arguments: Any) -> None:
            self.read_nested(node.kind for node in template.nodes)
            draw_template(flow, template, arguments)

        draw.__name__ = row.name
        draw.__annotations__ = {}
        cast(Any, draw).__signature__ = _signature(template)
        return make_flow(draw, Options(name=row.name, version=row.version))

    def _run(self, template: str, version: int, arguments: dict[str, Any]) -> object:
        """Be the node that is a template."""
        draw = self._kind(self.row(template, version)).draw
        assert draw is not None
        return expand(current.get(), draw, **arguments)

    def _check(self, name: str, template: Template) -> None:
        """Refuse what cannot run."""
        for draft in self._drawn(template):
            try:
                draft.kind.arguments.check_open(draft.args, draft.kwargs, is_open=is_open)
            except BadArgument as problem:
                raise BadFlow(f"template {name!r}, node {draft.shape.name!r}: {problem}") from None

    def _drawn(self, template: Template) -> list[Draft]:
        """The nodes of a template. What the arguments of a start will be is not known yet."""
        self.read_nested(node.kind for node in template.nodes)
        drawing = Drawing(self._registry)
        draw_template(drawing, template, {each: Argument(each) for each in template.arguments})
        return drawing.checked()


def draw_template(flow: Drawing, template: Template, arguments: dict[str, Any]) -> None:
    """Draw the nodes of a template."""
    for node, after in template.ordered():
        flow.draw(
            node.kind,
            tuple(filled_in(node.args, arguments)),
            filled_in(node.kwargs, arguments),
            after=after,
            name=node.name,
            trigger=cast(Any, node.trigger),
            when=node.when,
        )


def _signature(template: Template) -> Signature:
    """How a template is drawn: on a drawing, with the arguments that are in it."""
    named = [Parameter(name, Parameter.KEYWORD_ONLY) for name in template.arguments]
    return Signature([Parameter("_drawing", Parameter.POSITIONAL_ONLY), *named])


def _save(shard: Shard, name: str, text: str) -> TemplateRow:
    def save() -> TemplateRow:
        return shard.database.write(
            lambda connection: store.save(connection, name, text, now=shard.clock.now())
        )

    for _ in range(SAVES - 1):
        # Somebody else may save that version at the same moment: this is then the next one.
        with suppress(IntegrityError):
            return save()
    return save()
