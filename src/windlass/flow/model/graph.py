"""The graph of a flow run: when it is valid, and what the end of a node does to other nodes.

A node has a slot for each parent; `open_slots` counts the slots that are not filled. The store
reads the edges below nodes that have ended and writes what `fill` decides.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple, TypeVar, get_args

from windlass.errors import BadFlow
from windlass.value.outcome import LONGEST_REMARK
from windlass.value.status import NamedCode, Status
from windlass.value.task import is_storable

LONGEST_NODE = 255
SKIPPED = "skipped: "
BLOCKED_BY = "blocked by "
SKIPPED_BY_HAND = "skipped by hand"

# What operators look for first.
URGENT = (Status.FAILED, Status.RUNNING, Status.EXTERNAL, Status.WAITING, Status.BLOCKED)

Trigger = Literal["all_success", "all_done", "any_success", "one_failed", "all_failed"]
T = TypeVar("T", bound=Hashable)


class Rule(NamedCode):
    """What fills the slots of a node. A nested flow has an END slot for each node inside it."""

    ALL_SUCCESS = 0
    ALL_DONE = 1
    ANY_SUCCESS = 2
    END = 3
    ONE_FAILED = 4
    ALL_FAILED = 5


# With these a node may be skipped because its parents succeed.
ON_FAILURE = frozenset({Rule.ONE_FAILED, Rule.ALL_FAILED})


class NodeEnd(Enum):
    """How a node ended, for the nodes that wait for it."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"


def how_ended(status: Status, last: Status | None) -> NodeEnd | None:
    """How a node of this status ended; None if it has not ended.

    `last` is set when the node ended without running: blocked if its parents decided that, waiting
    if its condition was false.
    """
    match status:
        case Status.SUCCEEDED:
            return NodeEnd.SUCCEEDED
        case Status.CANCELLED if last is not None:
            return NodeEnd.SKIPPED
        case Status.FAILED | Status.CANCELLED:
            return NodeEnd.FAILED
    return None


def blocked_end(end: NodeEnd, cause: str) -> tuple[Status, str]:
    """The status and the remark of a node that can never run, because of how `cause` ended."""
    if end is NodeEnd.SKIPPED:
        return Status.CANCELLED, f"{SKIPPED}{cause}"[:LONGEST_REMARK]
    return Status.FAILED, f"{BLOCKED_BY}{cause}"[:LONGEST_REMARK]


def read_trigger(given: object, *, node: str) -> Rule:
    names = get_args(Trigger)
    if given in names:
        return Rule[str(given).upper()]
    raise BadFlow(f"node {node!r}: trigger={given!r} is not one of {', '.join(names)}")


class Edge(NamedTuple):
    """A slot: `task` waits for `dep`. The other fields are the present state of `task`."""

    dep: int
    task: int
    rule: Rule
    status: Status
    open_slots: int
    run: int
    bucket: int = 0


class EndedNode(NamedTuple):
    """A node that has ended; `cause` is the node that blocks the nodes below."""

    id: int
    how: NodeEnd
    cause: str


@dataclass
class Filled:
    """What filling slots makes of the nodes that waited."""

    # Nodes that still wait, with the number of slots that were filled.
    still: dict[int, int] = field(default_factory=dict)
    # The nested flows among them.
    nested: set[int] = field(default_factory=set)
    due: list[int] = field(default_factory=list)
    # Nodes that can never run, and why.
    ended: list[EndedNode] = field(default_factory=list)
    # Nested flows in which every node has ended.
    empty: list[int] = field(default_factory=list)


def fill(edges: Iterable[Edge], ended: Iterable[EndedNode]) -> Filled:
    """Fill the slots below nodes that have ended, and below nodes that can then never run.

    Nodes that are no longer blocked do not change.
    """
    below: dict[int, list[Edge]] = {}
    open_slots: dict[int, int] = {}
    for edge in edges:
        is_waiting = edge.status is (Status.RUNNING if edge.rule is Rule.END else Status.BLOCKED)
        if is_waiting:
            below.setdefault(edge.dep, []).append(edge)
            open_slots[edge.task] = edge.open_slots
    filled = Filled()
    decided: set[int] = set()
    queue = deque(ended)
    while queue:
        dep = queue.popleft()
        for edge in below.get(dep.id, ()):
            if edge.task in decided:
                continue
            left = open_slots[edge.task] = open_slots[edge.task] - 1
            verdict = _decide(edge.rule, dep.how, left)
            if verdict is None:
                filled.still[edge.task] = filled.still.get(edge.task, 0) + 1
                if edge.rule is Rule.END:
                    filled.nested.add(edge.task)
                continue
            decided.add(edge.task)
            filled.still.pop(edge.task, None)
            if edge.rule is Rule.END:
                filled.empty.append(edge.task)
            elif verdict is NodeEnd.SUCCEEDED:
                filled.due.append(edge.task)
            else:
                filled.ended.append(EndedNode(edge.task, verdict, dep.cause))
                queue.append(filled.ended[-1])
    return filled


def _decide(rule: Rule, how: NodeEnd, left: int) -> NodeEnd | None:
    """What filling one slot decides: SUCCEEDED lets the node run, None decides nothing yet."""
    is_success = how is NodeEnd.SUCCEEDED
    match rule:
        case Rule.ALL_SUCCESS if not is_success:
            return how
        case Rule.ANY_SUCCESS if is_success:
            return NodeEnd.SUCCEEDED
        case Rule.ANY_SUCCESS if left <= 0:
            return how
        case Rule.ONE_FAILED if how is NodeEnd.FAILED:
            return NodeEnd.SUCCEEDED
        case Rule.ONE_FAILED:
            return NodeEnd.SKIPPED if left <= 0 else None
        case Rule.ALL_FAILED if how is not NodeEnd.FAILED:
            return NodeEnd.SKIPPED
    return NodeEnd.SUCCEEDED if left <= 0 and rule is not Rule.ANY_SUCCESS else None


@dataclass(frozen=True)
class NodeShape:
    """A node and what it waits for; `needs` are the nodes whose results it gets."""

    name: str
    kind: str
    after: tuple[str, ...]
    rule: Rule = Rule.ALL_SUCCESS
    needs: frozenset[str] = frozenset()
    when: str | None = None


def check_name(name: object) -> str:
    """`name`, if a node may have it."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise BadFlow(f"a node cannot be named {name!r}; give it a plain name")
    if len(name) > LONGEST_NODE or not is_storable(name):
        raise BadFlow(f"node name {name[:40]!r}... is too long; at most {LONGEST_NODE} characters")
    return name


def check_given(name: object) -> str:
    """`name`, if a user may give it to a node."""
    if "/" in check_name(name):
        raise BadFlow(f"a node cannot be named {name!r}: / is for the nodes of nested flows")
    return str(name)


def check_graph(shapes: Sequence[NodeShape], *, known: Mapping[str, Collection[str]]) -> None:
    """Refuse a cycle, an unknown node, a name that is used twice, or a result that may be missing.

    `known` are the existing nodes, each with what it waits for.
    """
    after: dict[str, Collection[str]] = dict(known)
    for shape in shapes:
        if shape.name in after:
            raise BadFlow(f"two nodes are named {shape.name!r}; give one of them another name=")
        after[shape.name] = shape.after
    for shape in shapes:
        for name in (*shape.after, *shape.needs):
            if name not in after:
                raise BadFlow(
                    f"node {shape.name!r} refers to {name!r}, which is not a node of this flow"
                )
    left = after.keys() - set(placed(after))
    if left:
        raise BadFlow(f"the nodes wait for each other in a circle: {_circle(after, left)}")
    check_needs(after, {shape.name: shape.needs for shape in shapes})


def placed(after: Mapping[T, Collection[T]]) -> list[T]:
    """The nodes, parents before children, in the given order where that is free.

    Nodes in a cycle, and the nodes below them, are left out.
    """
    left: dict[T, int] = {}
    children: dict[T, list[T]] = {}
    for name, parents in after.items():
        known = [parent for parent in dict.fromkeys(parents) if parent in after]
        left[name] = len(known)
        for parent in known:
            children.setdefault(parent, []).append(name)
    ready = deque(name for name, count in left.items() if not count)
    found: list[T] = []
    while ready:
        found.append(ready.popleft())
        for child in children.get(found[-1], ()):
            left[child] -= 1
            if not left[child]:
                ready.append(child)
    return found


def _circle(after: Mapping[str, Collection[str]], left: Collection[str]) -> str:
    path = [min(left)]
    while path[-1] not in path[:-1]:
        path.append(next(name for name in after[path[-1]] if name in left))
    return " -> ".join(reversed(path[path.index(path[-1]) :]))


def check_needs(after: Mapping[str, Collection[str]], needs: Mapping[str, Collection[str]]) -> None:
    """Refuse a result of a node that need not have ended before. `needs` maps nodes to nodes."""
    far = {name: set(needed) - set(after[name]) for name, needed in needs.items()}
    needed = {need for each in far.values() for need in each}
    if not needed:
        return
    bits = {name: 1 << index for index, name in enumerate(needed)}
    # The needed nodes above each node, as bits; dropped once the last child has them.
    above: dict[str, int] = {}
    left = Counter(parent for parents in after.values() for parent in set(parents))
    for name in placed(after):
        mask = 0
        for parent in set(after[name]):
            mask |= above[parent] | bits.get(parent, 0)
            left[parent] -= 1
            if not left[parent]:
                del above[parent]
        above[name] = mask
        for need in sorted(far.get(name, ())):
            if not mask & bits[need]:
                raise BadFlow(
                    f"node {name!r} is given the result of {need!r}, which need not have ended "
                    f"before; add after=[{need}]"
                )


def downwards(children: Mapping[int, Sequence[int]], begin: Iterable[int]) -> list[int]:
    """These nodes and all below them, parents before children."""
    after: dict[int, list[int]] = {number: [] for number in sorted(begin)}
    queue = list(after)
    while queue:
        parent = queue.pop()
        for child in children.get(parent, ()):
            if child not in after:
                after[child] = []
                queue.append(child)
            after[child].append(parent)
    return placed(after)


def buckets(
    shapes: Sequence[NodeShape], *, own: Mapping[str, int], known: Mapping[str, int]
) -> dict[str, int]:
    """The bucket of each node: a first child takes the bucket of its parent, others their own.

    So a chain stays with one worker, which hands it on without a read, and the other nodes of a
    fan are spread. `known` are the buckets of existing nodes.
    """
    found = dict(known)
    after = {shape.name: shape.after for shape in shapes}
    taken: set[str] = set()
    for name in placed(after):
        first = next((parent for parent in after[name] if parent not in taken), None)
        if first is None:
            found[name] = own[name]
        else:
            found[name] = found[first]
            taken.add(first)
    return found
