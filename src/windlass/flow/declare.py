"""How flows are declared: functions draw nodes and edges, and templates are JSON."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any, NamedTuple, cast

import msgspec

from windlass.core.task.kind import Kind, Registry, check_runs
from windlass.errors import BadDeclaration, BadFlow
from windlass.flow.model.graph import (
    NodeShape,
    Trigger,
    check_given,
    check_graph,
    placed,
    read_trigger,
)
from windlass.flow.model.node import NodeCondition, Result, results_in


class FlowTerms(NamedTuple):
    """What draws the nodes of a flow; the version, if it is a template; how long a run may take."""

    draw: Callable[..., Any]
    version: int | None = None
    timeout: int | None = None


def flow_of(kind: Kind | None) -> FlowTerms | None:
    """What is declared of a kind that is a flow; None if it is not."""
    terms = None if kind is None else kind.face_terms
    return terms if isinstance(terms, FlowTerms) else None


def draw_of(kind: Kind) -> Callable[..., Any]:
    """The function that draws the nodes of a flow."""
    terms = flow_of(kind)
    assert terms is not None
    return terms.draw


def timeout_of(kind: Kind) -> int | None:
    """How long a run of a flow may take."""
    terms = flow_of(kind)
    return None if terms is None else terms.timeout


def version_of(kind: Kind) -> int | None:
    """The version of a kind that is a template."""
    terms = flow_of(kind)
    return None if terms is None else terms.version


@dataclass(eq=False, repr=False, slots=True)
class Node:
    """A node that was drawn. Its `result` can be an argument of a later node."""

    name: str

    @property
    def result(self) -> Result:
        """The future result of the node; `result["rows"]` is a part of it."""
        return Result(self.name)

    def __repr__(self) -> str:
        return f"<node {self.name!r}>"


After = Node | str | Iterable["Node | str | Iterable[Node]"] | None


@dataclass(frozen=True)
class Draft:
    """A node that is not written yet: its place in the graph, its kind, and its arguments.

    `names` maps each name in its condition to the name of that node in the flow run.
    """

    shape: NodeShape
    kind: Kind
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    names: Mapping[str, str] = field(default_factory=dict)
    is_named: bool = True


class Drawing:
    """What a flow function draws its nodes on.

    `known` are the existing nodes, each with what it waits for. A new node without `after` waits
    for `default`.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        known: Mapping[str, Iterable[str]] | None = None,
        default: tuple[str, ...] = (),
    ) -> None:
        self._registry = registry
        self._known = {name: tuple(after) for name, after in (known or {}).items()}
        self._default = default
        self._names: set[str] = set(self._known)
        self._next: dict[str, int] = {}
        self.drafts: list[Draft] = []

    def add(
        self,
        kind: object,
        /,
        *args: object,
        after: After = None,
        name: str | None = None,
        trigger: Trigger = "all_success",
        when: str | None = None,
        **kwargs: object,
    ) -> Node:
        """Add a node that calls `kind` with these arguments after the nodes in `after` have ended.

        `trigger` says how they must have ended. With `when`, the node is skipped unless that
        condition is true.
        """
        return self.draw(kind, args, kwargs, after=after, name=name, trigger=trigger, when=when)

    def each(
        self,
        kind: object,
        items: Iterable[object],
        /,
        *,
        after: After = None,
        name: str | None = None,
        trigger: Trigger = "all_success",
    ) -> list[Node]:
        """Add a node for each item; the item is its only argument."""
        if isinstance(items, str | bytes) or not isinstance(items, Iterable):
            raise BadFlow(f"each(..., {items!r}) is not a list of items; for one node call add")
        base = None if name is None else check_given(name)
        found = self._kind(kind)
        parents = self._parents(after)
        rule = read_trigger(trigger, node=base or found.name)
        drawn: list[Node] = []
        for item in items:
            shape = NodeShape(
                self._numbered(base or found.name, first=1),
                found.name,
                parents,
                rule,
                frozenset(results_in(item)),
            )
            drawn.append(self._put(Draft(shape, found, (item,), {}, is_named=base is not None)))
        return drawn

    def draw(
        self,
        kind: object,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        *,
        after: After = None,
        name: str | None = None,
        trigger: Trigger = "all_success",
        when: str | None = None,
    ) -> Node:
        """`add`, with the arguments of the task apart: they may have any name."""
        found = self._kind(kind)
        named = self._free(found.name) if name is None else check_given(name)
        if named in self._names:
            raise BadFlow(f"two nodes are named {named!r}; give one of them another name=")
        condition = None if when is None else NodeCondition(when, node=named)
        names = {} if condition is None else {need: need for need in condition.needs}
        shape = NodeShape(
            name=named,
            kind=found.name,
            after=self._parents(after),
            rule=read_trigger(trigger, node=named),
            needs=frozenset(results_in(list(args)) | results_in(dict(kwargs)) | names.keys()),
            when=when,
        )
        return self._put(Draft(shape, found, args, kwargs, names, is_named=name is not None))

    def checked(self) -> list[Draft]:
        """The nodes that were drawn, if they make a valid graph."""
        check_graph([draft.shape for draft in self.drafts], known=self._known)
        return self.drafts

    def _kind(self, given: object) -> Kind:
        if isinstance(given, Kind):
            return given
        name = given if isinstance(given, str) else getattr(given, "kind", None)
        if not isinstance(name, str):
            raise BadFlow(f"{given!r} is not a task; give a declared task, flow or external")
        kind = self._registry.get(name)
        if kind.period is not None or not kind.has_rows or kind.schedule is not None:
            raise BadFlow(f"kind {name!r} runs by itself; a node must be a task, flow or external")
        if kind.lane is not None:
            raise BadFlow(
                f"kind {name!r} has lanes, and a node runs as soon as its slots are filled; "
                "declare a kind without lane=, or enqueue a task of this one from a node"
            )
        return kind

    def _put(self, draft: Draft) -> Node:
        self._names.add(draft.shape.name)
        self.drafts.append(draft)
        return Node(draft.shape.name)

    def _free(self, kind: str) -> str:
        return self._numbered(kind, first=2) if kind in self._names else kind

    def _numbered(self, base: str, *, first: int) -> str:
        number = max(first, self._next.get(base, 0))
        while f"{base}-{number}" in self._names:
            number += 1
        self._next[base] = number + 1
        return f"{base}-{number}"

    def _parents(self, after: After) -> tuple[str, ...]:
        return self._default if after is None else tuple(dict.fromkeys(_names_in(after)))


class Edit(Drawing):
    """Changes to a flow run that has not ended, made together or not at all."""

    def __init__(self, registry: Registry, known: Mapping[str, Sequence[str]]) -> None:
        super().__init__(registry, known=known)
        self.linked: list[tuple[str, str]] = []
        self.unlinked: list[tuple[str, str]] = []

    def link(self, parent: Node | str, child: Node | str) -> None:
        """Let `child` also wait for `parent`."""
        self.linked.append((_name_of(parent), _name_of(child)))

    def unlink(self, parent: Node | str, child: Node | str) -> None:
        """Let `child` no longer wait for `parent`."""
        self.unlinked.append((_name_of(parent), _name_of(child)))


def without_first(function: Callable[..., Any], runs: Callable[..., Any]) -> Callable[..., Any]:
    """`runs` with the signature of `function`, but without its first parameter, the drawing."""
    if not callable(function) or not hasattr(function, "__name__"):
        raise BadDeclaration(f"{function!r} is not a function; declare def name(flow, ...)")
    check_runs(function.__name__, function)
    if inspect.iscoroutinefunction(function):
        raise BadDeclaration(
            f"flow {function.__name__!r} is async; it only draws, so write it as a plain def"
        )
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    first = parameters[0] if parameters else None
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        raise BadDeclaration(
            f"flow {function.__name__!r} has no parameter for the flow that it draws on; "
            f"write def {function.__name__}(flow, ...)"
        )
    wrapped = functools.wraps(function)(runs)
    cast(Any, wrapped).__signature__ = signature.replace(
        parameters=parameters[1:], return_annotation=inspect.Signature.empty
    )
    wrapped.__annotations__ = {
        name: hint
        for name, hint in function.__annotations__.items()
        if name not in (first.name, "return")
    }
    return wrapped


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
    """A flow as JSON, drawn in the console or loaded from a file.

    `{"nodes": [{"name", "kind", "args", "kwargs", "trigger", "when"}], "edges": [[from, to]]}`. In
    arguments, `{"$result": "load"}` stands for the result of node load, with `"path": ["rows"]` for
    a part of it, and `{"$argument": "order"}` for an argument of the start. The `status` of a node,
    which an exported run has, is dropped.
    """

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
        found: set[str] = set()
        filled_in([[node.args, node.kwargs] for node in self.nodes], found.add)
        return sorted(found)


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


def filled_in(value: Any, argument: Callable[[str], object]) -> Any:
    """A value of a template with results and arguments in place of their references."""
    match value:
        case {"$result": str(node), "path": list(path)}:
            return Result(node, tuple(path))
        case {"$result": str(node)}:
            return Result(node)
        case {"$argument": str(name)}:
            return argument(name)
        case dict():
            return {key: filled_in(part, argument) for key, part in value.items()}
        case list():
            return [filled_in(part, argument) for part in value]
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


def draw_node(
    flow: Drawing, node: TemplateNode, *, after: Sequence[str], arguments: Mapping[str, object]
) -> None:
    """Draw a node of a template or of an edit."""

    def argument(name: str) -> object:
        if name not in arguments:
            raise BadFlow(f"the template needs the argument {name!r}; start it with {name}=...")
        return arguments[name]

    flow.draw(
        node.kind,
        tuple(filled_in(node.args, argument)),
        filled_in(node.kwargs, argument),
        after=after,
        name=node.name,
        trigger=cast(Any, node.trigger),
        when=node.when,
    )


def _names_in(after: After) -> Iterable[str]:
    if isinstance(after, Node):
        yield after.name
    elif isinstance(after, str):
        yield after
    elif isinstance(after, Iterable):
        for each in after:
            yield from _names_in(each)
    elif after is not None:
        raise BadFlow(f"after={after!r} is not a node")


def _name_of(node: Node | str) -> str:
    return node.name if isinstance(node, Node) else node
