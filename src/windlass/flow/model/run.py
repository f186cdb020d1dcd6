"""What users see of a flow run: its nodes, its progress, and its graph as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec

from windlass.errors import BadFlow
from windlass.flow.model.graph import NodeShape, Rule
from windlass.flow.model.node import Result, RunHead, arguments_of, head_of, keep_of, replaced
from windlass.value.shard import COMING
from windlass.value.status import FINAL, Status
from windlass.view.field import Moment

STYLES = {
    Status.WAITING: "#cfe8ff",
    Status.RUNNING: "#7db8ff",
    Status.SUCCEEDED: "#9be29b",
    Status.FAILED: "#ff9b9b",
    Status.BLOCKED: "#eeeeee",
    Status.EXTERNAL: "#d9b3ff",
    Status.CANCELLED: "#bbbbbb",
}

Drawn = tuple[NodeShape, Sequence[object], Mapping[str, object]]


@dataclass(frozen=True)
class RunRow:
    """A flow run; `left` nodes have not ended."""

    id: int
    flow: str
    key: str | None
    status: Status
    left: int
    created_at: Moment
    finished_at: Moment | None
    error: str | None
    _payload: str = field(repr=False)
    _batch: int | None = field(repr=False)
    _started_at: int | None = field(repr=False)

    @property
    def head(self) -> RunHead | None:
        """What its row holds besides the arguments."""
        return head_of(self._payload)

    def begun_at(self, head: RunHead) -> int:
        """When its present try began: its start, or the last retry after its end."""
        return self._started_at or head.begins_at(self.created_at)

    @property
    def keep(self) -> int:
        """How long it is kept after its end."""
        return keep_of(self._payload)

    @property
    def begins_at(self) -> int:
        """When its first nodes were due."""
        head = self.head
        return self.created_at if head is None else head.begins_at(self.created_at)

    @property
    def arguments(self) -> dict[str, object]:
        """The arguments that it was started with."""
        return arguments_of(self._payload)

    @property
    def is_coming(self) -> bool:
        """Whether it is a copy that is still being moved from another shard."""
        return self._batch == COMING


@dataclass(frozen=True)
class NodeFilter:
    """Which nodes: those whose names begin with `prefix`, and come after the name `after`."""

    status: Status | None
    prefix: str
    after: str
    limit: int


@dataclass(frozen=True)
class NodeView:
    """A node of a flow run. Times are microseconds since the epoch."""

    name: str
    kind: str
    status: Status
    result: Any
    error: str | None
    id: int
    attempt: int
    open_slots: int
    due_at: Moment | None
    started_at: Moment | None
    finished_at: Moment | None
    # By its condition, by the condition of a parent, or by an operator.
    is_skipped: bool = False

    @property
    def duration(self) -> timedelta | None:
        """How long it ran, if it has ended."""
        if self.started_at is None or self.finished_at is None:
            return None
        return timedelta(microseconds=max(0, self.finished_at - self.started_at))


@dataclass(frozen=True)
class FlowProgress:
    """How many nodes of a flow run have which status."""

    total: int
    counts: dict[Status, int]

    def __getattr__(self, name: str) -> int:
        try:
            status = Status.named(name)
        except KeyError:
            raise AttributeError(name) from None
        return self.counts.get(status, 0)

    @property
    def ended(self) -> int:
        """How many have ended: succeeded, failed or cancelled."""
        return sum(self.counts.get(status, 0) for status in FINAL)

    @property
    def done(self) -> int:
        """How many have succeeded."""
        return self.counts.get(Status.SUCCEEDED, 0)

    @property
    def percent(self) -> float:
        """The share of nodes that have ended."""
        return 100.0 * self.ended / self.total if self.total else 100.0


@dataclass(frozen=True)
class GraphNode:
    """A node in a picture."""

    name: str
    kind: str
    status: Status | None = None
    rule: Rule = Rule.ALL_SUCCESS
    when: str | None = None
    args: Sequence[object] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict)

    def json(self) -> dict[str, object]:
        """The node as plain data, as in a template; defaults are left out."""
        whole = {
            "name": self.name,
            "kind": self.kind,
            "args": self._plain(list(self.args)),
            "kwargs": self._plain(dict(self.kwargs)),
            "trigger": None if self.rule is Rule.ALL_SUCCESS else str(self.rule),
            "when": self.when,
            "status": None if self.status is None else str(self.status),
        }
        return {name: value for name, value in whole.items() if value not in (None, [], {})}

    def _plain(self, arguments: object) -> object:
        try:
            return msgspec.to_builtins(replaced(arguments, _reference), str_keys=True)
        except (TypeError, ValueError, RecursionError) as problem:
            raise BadFlow(
                f"node {self.name!r}: an argument cannot be written as JSON: {problem}"
            ) from problem


@dataclass(frozen=True)
class FlowGraph:
    """Nodes and edges, for pictures and programs."""

    nodes: Sequence[GraphNode]
    edges: Sequence[tuple[str, str]]
    name: str = ""

    @classmethod
    def drawn(cls, drafts: Iterable[Drawn], name: str = "") -> FlowGraph:
        """The graph of nodes that are not started yet, with their arguments."""
        listed = list(drafts)
        return cls(
            [
                GraphNode(each.name, each.kind, None, each.rule, each.when, args, kwargs)
                for each, args, kwargs in listed
            ],
            [(parent, each.name) for each, _, _ in listed for parent in each.after],
            name,
        )

    def json(self) -> dict[str, object]:
        """Nodes and edges as plain data; it can be imported as a template."""
        return {
            "nodes": [node.json() for node in self.nodes],
            "edges": [list(edge) for edge in self.edges],
        }

    def mermaid(self) -> str:
        """A Mermaid flowchart."""
        number = {node.name: f"n{index}" for index, node in enumerate(self.nodes)}
        lines = ["flowchart TD"]
        lines += [f'    {number[node.name]}["{_quoted(_label(node))}"]' for node in self.nodes]
        lines += [f"    {number[one]} --> {number[other]}" for one, other in self.edges]
        lines += [
            f"    style {number[node.name]} fill:{STYLES[node.status]}"
            for node in self.nodes
            if node.status is not None
        ]
        return "\n".join(lines) + "\n"

    def dot(self) -> str:
        """A graph for Graphviz."""
        lines = ["digraph flow {", "    node [shape=box, style=filled, fillcolor=white];"]
        for node in self.nodes:
            colour = "" if node.status is None else f', fillcolor="{STYLES[node.status]}"'
            lines.append(f"    {_dot(node.name)} [label={_dot(_label(node))}{colour}];")
        lines += [f"    {_dot(one)} -> {_dot(other)};" for one, other in self.edges]
        return "\n".join([*lines, "}"]) + "\n"


def _reference(result: Result) -> dict[str, object]:
    path = {"path": list(result.path)} if result.path else {}
    return {"$result": result.node, **path}


def _label(node: GraphNode) -> str:
    of = "" if node.kind == node.name else f" ({node.kind})"
    state = "" if node.status is None else f": {node.status}"
    return f"{node.name}{of}{state}"


def _quoted(text: str) -> str:
    return text.replace('"', "#quot;").replace("\n", " ")


def _dot(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'
