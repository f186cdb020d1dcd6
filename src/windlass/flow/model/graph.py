"""Flows: the graph of a run, what makes one valid, and what the end of a node does to others.

A node waits for its parents by slots: `open_slots` counts those that are not filled. Everything
here is pure; the store reads the edges below what has ended, and writes what `fill` decides.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Literal, NamedTuple

from windlass.errors import BadFlow
from windlass.value.status import Status
from windlass.value.task import is_storable

LONGEST_NODE = 255
SKIPPED = "skipped: "
BLOCKED_BY = "blocked by "

Trigger = Literal["all_success", "all_done", "any_success"]


class Rule(IntEnum):
    """What the slots of a node wait for; END is the slot of a nested flow for a node inside it."""

    ALL_SUCCESS = 0
    ALL_DONE = 1
    ANY_SUCCESS = 2
    END = 3

    def __str__(self) -> str:
        return self.name.lower()


class How(Enum):
    """How a node ended, as far as those that wait for it care."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"


def how_ended(status: Status, last: Status | None) -> How | None:
    """How a node of that status ended; None if it has not.

    `last` is the state in which it ended without having run: blocked if that follows from how its
    parents ended, waiting if its condition did not hold.
    """
    match status:
        case Status.SUCCEEDED:
            return How.SUCCEEDED
        case Status.CANCELLED if last is not None:
            return How.SKIPPED
        case Status.FAILED | Status.CANCELLED:
            return How.FAILED
    return None


def read_trigger(given: object, *, node: str) -> Rule:
    """The rule that a trigger names."""
    if isinstance(given, str) and given.upper() in ("ALL_SUCCESS", "ALL_DONE", "ANY_SUCCESS"):
        return Rule[given.upper()]
    raise BadFlow(
        f"node {node!r}: trigger={given!r} is not one of all_success, all_done, any_success"
    )


class Edge(NamedTuple):
    """A slot: `task` waits for `dep`. With it, `task` as it is."""

    dep: int
    task: int
    rule: Rule
    status: Status
    open_slots: int
    run: int
    bucket: int = 0


class Ended(NamedTuple):
    """A node that has ended; `cause` is the node that those below are blocked by."""

    id: int
    how: How
    cause: str


@dataclass
class Filled:
    """What becomes of those who waited."""

    # Id to how many slots were filled, for those that go on waiting.
    still: dict[int, int] = field(default_factory=dict)
    # Those of them that are nested flows.
    nested: set[int] = field(default_factory=set)
    due: list[int] = field(default_factory=list)
    # Those that never can run, and why.
    ended: list[Ended] = field(default_factory=list)
    # Nested flows of which nothing is left.
    empty: list[int] = field(default_factory=list)


def fill(edges: Iterable[Edge], ended: Iterable[Ended]) -> Filled:
    """Fill the slots below nodes that have ended, and below those that thereby never can run.

    A node that is not blocked any more takes no notice.
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
            elif verdict is How.SUCCEEDED:
                filled.due.append(edge.task)
            else:
                filled.ended.append(Ended(edge.task, verdict, dep.cause))
                queue.append(filled.ended[-1])
    return filled


def _decide(rule: Rule, how: How, left: int) -> How | None:
    """What a slot that is filled so decides: SUCCEEDED lets the node run, None nothing yet."""
    is_success = how is How.SUCCEEDED
    match rule:
        case Rule.ALL_SUCCESS if not is_success:
            return how
        case Rule.ANY_SUCCESS if is_success:
            return How.SUCCEEDED
        case Rule.ANY_SUCCESS if left <= 0:
            return how
    return How.SUCCEEDED if left <= 0 and rule is not Rule.ANY_SUCCESS else None


class Opening(NamedTuple):
    """What a node whose parents are so waits for, and what follows: SUCCEEDED lets it run.

    `by` is the place of the parent that decides that it never can.
    """

    left: int
    verdict: How | None
    by: int | None = None


def open_after(rule: Rule, parents: Sequence[How | None]) -> Opening:
    """What becomes of a node whose parents ended so; None is one that has not."""
    if not parents:
        return Opening(0, How.SUCCEEDED)
    left = len(parents)
    decided: Opening | None = None
    for place, how in enumerate(parents):
        if how is None:
            continue
        left -= 1
        verdict = _decide(rule, how, left)
        if decided is None and verdict is not None:
            decided = Opening(0, verdict, None if verdict is How.SUCCEEDED else place)
    return decided or Opening(left, None)


# The graph of a run


@dataclass(frozen=True)
class NodeShape:
    """A node with what it waits for; `needs` are nodes whose results it is given."""

    name: str
    kind: str
    after: tuple[str, ...]
    rule: Rule = Rule.ALL_SUCCESS
    needs: frozenset[str] = frozenset()
    when: str | None = None


def check_name(name: object) -> str:
    """`name`, if a node can have it."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise BadFlow(f"a node cannot be named {name!r}; give it a plain name")
    if len(name) > LONGEST_NODE or not is_storable(name):
        raise BadFlow(f"node name {name[:40]!r}... is too long; at most {LONGEST_NODE} characters")
    return name


def check_given(name: object) -> str:
    """`name`, if somebody may give it to a node."""
    if "/" in check_name(name):
        raise BadFlow(f"a node cannot be named {name!r}: / is for the nodes of nested flows")
    return str(name)


def check_graph(shapes: Sequence[NodeShape], *, known: Mapping[str, Collection[str]]) -> None:
    """Refuse a graph that has a cycle, an unknown node, a name twice, or a result from nowhere.

    `known` are nodes that are there already, each with what it waits for.
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
                    f"node {shape.name!r} refers to {name!r}, which is no node of this flow"
                )
    check_acyclic(after)
    check_needs(after, {shape.name: shape.needs for shape in shapes})


def check_acyclic(after: Mapping[str, Collection[str]]) -> None:
    """Refuse nodes that wait for themselves, and name them."""
    left = after.keys() - set(placed(after))
    if left:
        raise BadFlow(f"the nodes wait for each other in a circle: {_circle(after, left)}")


def placed(after: Mapping[str, Collection[str]]) -> list[str]:
    """The nodes, parents before children, by what each waits for; those in a circle are left out.

    Nodes that could come next come in the order in which they were given.
    """
    left: dict[str, int] = {}
    children: dict[str, list[str]] = {}
    for name, parents in after.items():
        known = [parent for parent in dict.fromkeys(parents) if parent in after]
        left[name] = len(known)
        for parent in known:
            children.setdefault(parent, []).append(name)
    ready = deque(name for name, count in left.items() if not count)
    found: list[str] = []
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
    """Refuse results, by the node that needs them, of nodes that it does not wait for at all."""
    far = {name: set(needed) - set(after[name]) for name, needed in needs.items()}
    needed = {need for each in far.values() for need in each}
    if not needed:
        return
    bits = {name: 1 << index for index, name in enumerate(needed)}
    # Of the nodes above each, those that somebody needs; forgotten when the last child has them.
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
                    f"before; write after=[{need}]"
                )


def downwards(children: Mapping[int, Sequence[int]], begin: Iterable[int]) -> list[int]:
    """These nodes and all below them, parents before children."""
    seen = set(begin)
    queue = list(seen)
    left: Counter[int] = Counter()
    while queue:
        for child in children.get(queue.pop(), ()):
            left[child] += 1
            if child not in seen:
                seen.add(child)
                queue.append(child)
    ready = deque(sorted(number for number in seen if not left[number]))
    ordered: list[int] = []
    while ready:
        ordered.append(ready.popleft())
        for child in children.get(ordered[-1], ()):
            left[child] -= 1
            if not left[child]:
                ready.append(child)
    return ordered


def in_order(shapes: Sequence[NodeShape]) -> list[NodeShape]:
    """The nodes of a graph without a cycle, parents before children."""
    by_name = {shape.name: shape for shape in shapes}
    return [by_name[name] for name in placed({shape.name: shape.after for shape in shapes})]


def buckets(
    shapes: Sequence[NodeShape], *, own: Mapping[str, int], known: Mapping[str, int]
) -> dict[str, int]:
    """The bucket of each node: that of a parent whose first child it is, or else its own.

    The line that goes through first children stays with one worker, which hands it on without a
    read; of a fan all others are spread. `known` are buckets of nodes that are there already.
    """
    found: dict[str, int] = {}
    taken: set[str] = set()
    for shape in in_order(shapes):
        found[shape.name] = own[shape.name]
        for parent in shape.after:
            if parent not in taken:
                taken.add(parent)
                found[shape.name] = found[parent] if parent in found else known[parent]
                break
    return found
