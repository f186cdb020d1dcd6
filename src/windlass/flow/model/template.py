"""Templates: flows as JSON, drawn in the console or loaded from a file.

`{"nodes": [{"name", "kind", "args", "kwargs", "trigger", "when"}], "edges": [[from, to]]}`. In
arguments, `{"$result": "load"}` stands for the result of node load, with `"path": ["rows"]` for a
part of it, and `{"$argument": "order"}` for an argument of the start. The `status` of a node, which
an exported run has, is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any

import msgspec

from windlass.errors import BadFlow
from windlass.flow.model.graph import placed
from windlass.flow.model.node import Result


class TemplateNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A node of a template."""

    name: str
    kind: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    trigger: str = "all_success"
    when: str | None = None
    # Read, because an exported run has it; not kept and not shown.
    _status: str | None = msgspec.field(default=None, name="status")


class AddedNode(TemplateNode, frozen=True, forbid_unknown_fields=True):
    """A node that an edit adds to a flow run."""

    after: list[str] = []


class RunEdit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An edit of a flow run: nodes to add, edges to add, and edges to remove."""

    add: list[AddedNode] = []
    link: list[tuple[str, str]] = []
    unlink: list[tuple[str, str]] = []


class Template(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes and edges as they are saved."""

    nodes: list[TemplateNode]
    edges: list[tuple[str, str]] = []

    def ordered(self) -> list[tuple[TemplateNode, list[str]]]:
        """The nodes, parents before children, each with what it waits for."""
        after: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for parent, child in self.edges:
            for name in (parent, child):
                if name not in after:
                    raise BadFlow(
                        f"an edge refers to {name!r}, which is not a node of this template"
                    )
            after[child].append(parent)
        by_name = {node.name: node for node in self.nodes}
        names = placed(after)
        # Nodes in a cycle come last, and are then refused.
        names += after.keys() - set(names)
        return [(by_name[name], after[name]) for name in names]

    @property
    def arguments(self) -> list[str]:
        """The arguments that a start needs."""
        return sorted(arguments_in([[node.args, node.kwargs] for node in self.nodes]))


def read_template(name: str, spec: object) -> Template:
    """The template in this JSON or plain data, or an error that says what is wrong."""
    try:
        if isinstance(spec, str | bytes):
            template = msgspec.json.decode(spec, type=Template)
        else:
            template = msgspec.convert(spec, Template)
    except (msgspec.ValidationError, msgspec.DecodeError) as problem:
        raise BadFlow(f"template {name!r} cannot be read: {problem}") from problem
    for each, count in Counter(node.name for node in template.nodes).items():
        if count > 1:
            raise BadFlow(f"template {name!r}: two nodes are named {each!r}")
        if "/" in each:
            raise BadFlow(
                f"template {name!r}: node {each!r} is inside a nested flow, which adds it by "
                "itself; leave it out"
            )
    for each in template.arguments:
        if not each.isidentifier() or iskeyword(each):
            raise BadFlow(f"template {name!r}: no argument of a start can be named {each!r}")
    nodes = [msgspec.structs.replace(node, _status=None) for node in template.nodes]
    return Template(nodes, template.edges)


def filled_in(value: Any, arguments: Mapping[str, object]) -> Any:
    """A value of a template with results and arguments in place of their references."""
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


@dataclass(frozen=True)
class Argument:
    """An argument of a start, before its value is known."""

    name: str


def is_open(value: object) -> bool:
    """Whether `value` contains a result or an argument that is not known yet."""
    match value:
        case dict():
            return any(map(is_open, value.values()))
        case list():
            return any(map(is_open, value))
    return isinstance(value, Result | Argument)


def arguments_in(value: Any) -> set[str]:
    """The arguments of a start that are used anywhere in `value`."""
    match value:
        case {"$argument": str(name)}:
            return {name}
        case dict():
            return set[str]().union(*map(arguments_in, value.values()))
        case list():
            return set[str]().union(*map(arguments_in, value))
    return set()
