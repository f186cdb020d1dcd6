"""Templates: flows as JSON, drawn on a page or loaded from a file.

`{"nodes": [{"name", "kind", "args", "kwargs", "trigger", "when"}], "edges": [[from, to]]}`. In
arguments, `{"$result": "load"}` stands for what node load returned, with `"path": ["rows"]` for a
part of it, and `{"$argument": "order"}` for an argument of the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.errors import BadFlow
from windlass.model.flow import NodeShape, in_order
from windlass.model.node import Result


class TemplateNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A node on paper."""

    name: str
    kind: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    trigger: str = "all_success"
    when: str | None = None


class Template(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes and edges."""

    nodes: list[TemplateNode]
    edges: list[tuple[str, str]] = []

    def ordered(self) -> list[tuple[TemplateNode, list[str]]]:
        """The nodes, parents before children, each with what it waits for."""
        after: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for parent, child in self.edges:
            for name in (parent, child):
                if name not in after:
                    raise BadFlow(f"an edge refers to {name!r}, which is no node of this template")
            after[child].append(parent)
        by_name = {node.name: node for node in self.nodes}
        shapes = [NodeShape(node.name, node.kind, tuple(after[node.name])) for node in self.nodes]
        placed = [shape.name for shape in in_order(shapes)]
        # What is in a circle has no place; it comes last, and is then refused.
        placed += [name for name in by_name if name not in set(placed)]
        return [(by_name[name], after[name]) for name in placed]


def read_template(name: str, spec: object) -> Template:
    """The template that plain data describes, or an error that says what is wrong with it."""
    try:
        if isinstance(spec, str | bytes):
            template = msgspec.json.decode(spec, type=Template)
        else:
            template = msgspec.convert(spec, Template)
    except (msgspec.ValidationError, msgspec.DecodeError) as problem:
        raise BadFlow(f"template {name!r} cannot be read: {problem}") from problem
    names = [node.name for node in template.nodes]
    for each in names:
        if names.count(each) > 1:
            raise BadFlow(f"template {name!r}: two nodes are named {each!r}")
    return template


def filled_in(value: Any, arguments: Mapping[str, object]) -> Any:
    """A value of a template with its results and arguments in it."""
    match value:
        case {"$result": str(node), "path": list(path)}:
            return Result(node, tuple(path))
        case {"$result": str(node)}:
            return Result(node)
        case {"$argument": str(name)}:
            if name not in arguments:
                raise BadFlow(f"the template needs the argument {name!r}; start it with {name}=...")
            return arguments[name]
        case dict():
            return {key: filled_in(part, arguments) for key, part in value.items()}
        case list():
            return [filled_in(part, arguments) for part in value]
    return value


def arguments_in(value: Any) -> set[str]:
    """The arguments of a start that are somewhere in `value`."""
    match value:
        case {"$argument": str(name)}:
            return {name}
        case dict():
            return set[str]().union(*map(arguments_in, value.values()))
        case list():
            return set[str]().union(*map(arguments_in, value))
    return set()
