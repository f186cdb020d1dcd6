"""Flows as users write them: drawing nodes, starting a run, and the handle of what was started."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic, ParamSpec, Protocol, cast

from windlass.core.task.declare import How, OnConflict
from windlass.core.task.kind import Kind, Registry
from windlass.errors import BadDeclaration, BadFlow, BadInput
from windlass.flow.model.condition import NodeCondition
from windlass.flow.model.graph import NodeShape, Trigger, check_given, check_graph, read_trigger
from windlass.flow.model.node import Result, results_in
from windlass.flow.model.run import FlowGraph, FlowProgress, NodeView
from windlass.value.duration import Duration
from windlass.value.status import Status
from windlass.value.twin import twin

P = ParamSpec("P")


class Node:
    """A node that was drawn. Its `result` can be an argument of a later one."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def result(self) -> Result:
        """What the node will have returned; `result["rows"]` is a part of it."""
        return Result(self.name)

    def __repr__(self) -> str:
        return f"<node {self.name!r}>"


After = Node | str | Iterable["Node | str | Iterable[Node]"] | None


@dataclass(frozen=True)
class Draft:
    """A node on paper: its place in the graph, its kind, and its arguments.

    `names` are the nodes that its condition names, each with the name that it has in the run.
    """

    shape: NodeShape
    kind: Kind
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    names: Mapping[str, str] = field(default_factory=dict)
    is_named: bool = True


class Drawing:
    """What a flow function draws its nodes on.

    `known` are nodes that are there already, each with what it waits for, and `default` what a new
    one waits for if nothing is said.
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
        """Draw a node that calls `kind` with these arguments when what it is `after` has ended.

        `trigger` says what must have become of that; with `when` it is skipped unless that holds.
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
        """Draw a node for each item, which is its one argument."""
        if isinstance(items, str | bytes) or not isinstance(items, Iterable):
            raise BadFlow(f"each(..., {items!r}) is no list of items; to draw one node call add")
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
        """`add`, for arguments of any name."""
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
        """What was drawn, if it can run."""
        check_graph([draft.shape for draft in self.drafts], known=self._known)
        return self.drafts

    def _kind(self, given: object) -> Kind:
        if isinstance(given, Kind):
            return given
        name = given if isinstance(given, str) else getattr(given, "kind", None)
        if not isinstance(name, str):
            raise BadFlow(f"{given!r} is no task; give a declared task, flow or external")
        kind = self._registry.get(name)
        if kind.period is not None or kind.sweep is not None or kind.schedule is not None:
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


class FlowDesk(Protocol):
    """What the handles of flows need of the app."""

    def draw(
        self, kind: Kind, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> list[Draft]: ...
    def start(
        self, kind: Kind, args: tuple[object, ...], kwargs: Mapping[str, object], how: How
    ) -> FlowRun: ...
    async def astart(
        self, kind: Kind, args: tuple[object, ...], kwargs: Mapping[str, object], how: How
    ) -> FlowRun: ...
    def status(self, run: int) -> Status: ...
    def wait(self, run: int, *, timeout: Duration | float | None) -> Status: ...
    def nodes(self, run: int) -> list[NodeView]: ...
    def graph(self, run: int) -> FlowGraph: ...
    def progress(self, run: int) -> FlowProgress: ...
    def retry(self, run: int, node: str | None) -> int: ...
    def skip(self, run: int, node: str) -> None: ...
    def cancel(self, run: int, reason: str) -> bool: ...
    def edit(self, run: int, change: Callable[[Edit], object]) -> None: ...
    def edit_known(self, run: int) -> Mapping[str, Sequence[str]]: ...


class Edit(Drawing):
    """Changes to a run that goes on, made together or not at all."""

    def __init__(self, registry: Registry, known: Mapping[str, Sequence[str]]) -> None:
        super().__init__(registry, known=known)
        self.linked: list[tuple[str, str]] = []
        self.unlinked: list[tuple[str, str]] = []

    def link(self, parent: Node | str, child: Node | str) -> None:
        """Have `child` wait for `parent`, too."""
        self.linked.append((_name_of(parent), _name_of(child)))

    def unlink(self, parent: Node | str, child: Node | str) -> None:
        """Have `child` no longer wait for `parent`."""
        self.unlinked.append((_name_of(parent), _name_of(child)))


class FlowRun:
    """A run of a flow that was started. Awaiting it waits for its end."""

    __slots__ = ("_desk", "id")

    def __init__(self, desk: FlowDesk, number: int) -> None:
        self._desk = desk
        self.id = number

    def status(self) -> Status:
        """The state of the run: running, succeeded, failed or cancelled."""
        return self._desk.status(self.id)

    def wait(self, timeout: Duration | float | None = None) -> Status:
        """Wait until the run has ended; its state then. A run that failed does not raise.

        Raises ResultTimeout after `timeout` (seconds or "5s").
        """
        return self._desk.wait(self.id, timeout=timeout)

    def nodes(self) -> list[NodeView]:
        """All nodes, in the order in which they were drawn."""
        return self._desk.nodes(self.id)

    def graph(self) -> FlowGraph:
        """The nodes with their edges; `.mermaid()`, `.dot()` and `.json()` draw them."""
        return self._desk.graph(self.id)

    def progress(self) -> FlowProgress:
        """How many nodes are in which state."""
        return self._desk.progress(self.id)

    def retry(self, node: str | None = None) -> int:
        """Have the failed nodes run again, or one of them, and go on; how many nodes that are."""
        return self._desk.retry(self.id, node)

    def skip(self, node: str) -> None:
        """Count a node that has not succeeded as if it had, and go on."""
        self._desk.skip(self.id, node)

    def cancel(self, reason: str = "") -> bool:
        """End the run: nothing more begins. False if it had ended."""
        return self._desk.cancel(self.id, reason)

    def edit(self, change: Callable[[Edit], object]) -> None:
        """Add nodes, add or remove edges, where nodes have not begun: `change(edit)` says what.

        All of it is made, or none.
        """
        self._desk.edit(self.id, change)

    async def astatus(self) -> Status:
        """`status`, awaited."""
        return await twin(self.status)

    async def await_(self, timeout: Duration | float | None = None) -> Status:
        """`wait`, awaited; `await run` does the same."""
        return await twin(self.wait, timeout)

    async def anodes(self) -> list[NodeView]:
        """`nodes`, awaited."""
        return await twin(self.nodes)

    async def agraph(self) -> FlowGraph:
        """`graph`, awaited."""
        return await twin(self.graph)

    async def aprogress(self) -> FlowProgress:
        """`progress`, awaited."""
        return await twin(self.progress)

    async def aretry(self, node: str | None = None) -> int:
        """`retry`, awaited."""
        return await twin(self.retry, node)

    async def askip(self, node: str) -> None:
        """`skip`, awaited."""
        await twin(self.skip, node)

    async def acancel(self, reason: str = "") -> bool:
        """`cancel`, awaited."""
        return await twin(self.cancel, reason)

    async def aedit(self, change: Callable[[Edit], object]) -> None:
        """`edit`, awaited."""
        await twin(self.edit, change)

    def __await__(self) -> Generator[Any, None, Status]:
        return self.await_().__await__()

    def __repr__(self) -> str:
        return f"FlowRun({self.id})"


class Starter(Generic[P]):
    """Starts runs of one flow in one way."""

    def __init__(self, desk: FlowDesk, kind: Kind, how: How) -> None:
        self._desk = desk
        self._kind = kind
        self._how = how

    def start(self, *args: P.args, **kwargs: P.kwargs) -> FlowRun:
        """Draw the flow with these arguments and write its nodes, in one transaction."""
        return self._desk.start(self._kind, args, kwargs, self._how)

    async def astart(self, *args: P.args, **kwargs: P.kwargs) -> FlowRun:
        """`start`, awaited; also joins async connections and sessions."""
        return await self._desk.astart(self._kind, args, kwargs, self._how)

    def using(
        self,
        *,
        key: str | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        conn: object = None,
        on_conflict: OnConflict | None = None,
    ) -> Starter[P]:
        """The same flow, started another way.

        A `key` is started once: a second start returns the run that has it, or raises DuplicateKey
        with on_conflict="raise". `delay` or `at` say when the first nodes are due. `conn` joins the
        caller's transaction.
        """
        name, what = self._kind.name, f"flow {self._kind.name!r}"
        how = self._how.changed(
            name, what=what, key=key, delay=delay, at=at, priority=priority, conn=conn
        )
        if on_conflict is not None:
            if on_conflict not in ("skip", "raise"):
                raise BadInput(f"{what}: on_conflict={on_conflict!r} is not one of skip, raise")
            how = replace(how, on_conflict=on_conflict)
        return Starter(self._desk, self._kind, how)


class Flow(Starter[P]):
    """A declared flow. It may be a node of another one."""

    def __init__(self, desk: FlowDesk, kind: Kind) -> None:
        super().__init__(desk, kind, How())
        functools.update_wrapper(cast(Any, self), kind.draw or kind.function)

    @property
    def kind(self) -> str:
        """Its name."""
        return self._kind.name

    def graph(self, *args: P.args, **kwargs: P.kwargs) -> FlowGraph:
        """The graph that a start with these arguments would have; nothing is written."""
        self._kind.arguments.encode(args, kwargs, largest=sys.maxsize)
        drafts = self._desk.draw(self._kind, args, kwargs)
        return FlowGraph.drawn([(draft.shape, draft.args, draft.kwargs) for draft in drafts])

    def __repr__(self) -> str:
        return f"<flow {self._kind.name!r}>"


def without_first(function: Callable[..., Any], runs: Callable[..., Any]) -> Callable[..., Any]:
    """`runs` in the clothes of `function`, whose first parameter, the drawing, is not given."""
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
            f"flow {function.__name__!r}: its first parameter is the flow that it draws on; "
            f"write def {function.__name__}(flow, ...)"
        )
    dressed = functools.wraps(function)(runs)
    cast(Any, dressed).__signature__ = signature.replace(
        parameters=parameters[1:], return_annotation=inspect.Signature.empty
    )
    dressed.__annotations__ = {
        name: hint
        for name, hint in function.__annotations__.items()
        if name not in (first.name, "return")
    }
    return dressed


def _names_in(after: After) -> Iterable[str]:
    if isinstance(after, Node):
        yield after.name
    elif isinstance(after, str):
        yield after
    elif isinstance(after, Iterable):
        for each in after:
            yield from _names_in(each)
    elif after is not None:
        raise BadFlow(f"after={after!r} is no node")


def _name_of(node: Node | str) -> str:
    return node.name if isinstance(node, Node) else node
