"""Templates: flows as JSON that are saved, versioned and started like declared ones."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from windlass.declare.flow import Drawing, Flow
from windlass.declare.kind import Options, Registry
from windlass.engine.fleet import Fleet
from windlass.errors import BadFlow, UnknownFlow
from windlass.model.template import Template, arguments_in, filled_in, read_template
from windlass.operate.flow_declare import FlowDeclarer
from windlass.store import template as store
from windlass.store.template import TemplateRow


class Templates:
    """`app.flow_template`: saves templates, and gives handles of them."""

    def __init__(self, fleet: Fleet, registry: Registry, flows: FlowDeclarer) -> None:
        self._fleet = fleet
        self._registry = registry
        self._flows = flows

    def __call__(self, name: str, spec: object) -> Flow[...]:
        """Check a template, save it as a new version if it has changed, and give its handle."""
        template = read_template(name, spec)
        known = self._registry.kinds.get(name)
        if known is not None and getattr(known.draw, "version", None) is None:
            raise BadFlow(f"{name!r} is declared in code; give the template another name")
        self._check(template)
        text = msgspec.json.encode(template).decode()
        self._fleet.prepare()
        saved = self._fleet.everywhere(
            lambda shard: shard.database.write(
                lambda connection: store.save(connection, name, text, now=shard.clock.now())
            ),
            what=f"template {name!r} is saved",
        )
        return self._handle(saved[0])

    def get(self, name: str, version: int | None = None) -> Flow[...]:
        """The handle of a template that was saved before."""
        return self._handle(self.row(name, version))

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
        return self._fleet.gather(lambda shard: shard.database.read(store.listing)).values[0]

    def _handle(self, row: TemplateRow) -> Flow[...]:
        template = read_template(row.name, row.spec)

        def draw(flow: Drawing, **arguments: Any) -> None:
            draw_template(flow, template, arguments)

        draw.__name__ = row.name
        cast(Any, draw).version = row.version
        self._registry.kinds.pop(row.name, None)
        self._flows.add(draw, Options(name=row.name))
        return self._flows.get(row.name)

    def _check(self, template: Template) -> None:
        drawing = Drawing(self._registry)
        wanted = arguments_in([[node.args, node.kwargs] for node in template.nodes])
        # What the arguments will be is not known yet: only the graph is checked.
        draw_template(drawing, template, dict.fromkeys(wanted))
        drawing.checked()


def draw_template(flow: Drawing, template: Template, arguments: dict[str, Any]) -> None:
    """Draw the nodes of a template."""
    for node, after in template.ordered():
        flow.add(
            node.kind,
            *filled_in(node.args, arguments),
            after=after,
            name=node.name,
            trigger=cast(Any, node.trigger),
            when=node.when,
            **filled_in(node.kwargs, arguments),
        )
