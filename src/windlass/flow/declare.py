"""What a flow function draws on: nodes, their edges, and changes to a flow run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from windlass.core.task.kind import Kind, Registry
from windlass.errors import BadDeclaration, BadFlow
from windlass.flow.model.condition import NodeCondition
from windlass.flow.model.graph import NodeShape, Trigger, check_given, check_graph, read_trigger
from windlass.flow.model.node import Result, results_in


class Node:
    """A node that was drawn. Its `result` can be an argument of a later node."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

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
