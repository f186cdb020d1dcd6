"""The picture of a run in a terminal: its nodes in an order in which they may run.

A node is drawn as a branch below the one node that it waits for, or below the nested flow that it
is inside. Whatever else it waits for is written beside it. Large fans of equals are one line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from windlass.cli.output import COLOURS, console, counted, visible
from windlass.flow.model.graph import placed
from windlass.flow.model.run import FlowGraph, NodeView
from windlass.value.duration import format_duration
from windlass.value.status import Status

MOST_LINES = 200
# So many equals are one line, below which a few that failed are shown.
FOLD = 8
MOST_FAILED = 3
MOST_PARENTS = 3
# So far to the right a branch may go; what is further begins again on the left.
WIDEST_GUIDE = 24

DIM = "bright_black"
SKIPPED = "skipped"
# What a fan looks like from afar: the first of these that one of its nodes is.
TELLING = (
    Status.FAILED,
    Status.RUNNING,
    Status.EXTERNAL,
    Status.WAITING,
    Status.BLOCKED,
    Status.SUCCEEDED,
)


class Line(NamedTuple):
    """A node, or a fan of them, after what leads to it."""

    guide: str
    nodes: Sequence[str]
    # Whether what it waits for cannot be seen from the guide.
    tells_parents: bool


class Layout:
    """Where the nodes of a graph are drawn."""

    def __init__(self, graph: FlowGraph) -> None:
        names = [node.name for node in graph.nodes]
        self.after: dict[str, list[str]] = {name: [] for name in names}
        children: dict[str, list[str]] = {name: [] for name in names}
        for parent, child in graph.edges:
            self.after[child].append(parent)
            children[parent].append(child)
        self._group = {name: _group_of(name, self.after) for name in names}
        members = _members(self._group)
        self._is_nested = members.keys()
        order = placed(
            {
                name: [
                    *parents,
                    *([] if self._group[name] is None else [str(self._group[name])]),
                    *(inner for parent in parents for inner in members.get(parent, ())),
                ]
                for name, parents in self.after.items()
            }
        )
        # A picture of what was changed while it was read may have nodes without a place.
        order += self.after.keys() - set(order)
        kinds = {node.name: node.kind for node in graph.nodes}
        self.fans = self._fold(order, kinds, children)
        self._below: dict[str | None, list[str]] = {}
        for name in order:
            if self.fans.get(name, (name,))[0] == name:
                self._below.setdefault(self._above(name), []).append(name)

    def lines(self) -> Iterator[Line]:
        """The lines of the picture, from top to bottom."""
        left = [(name, "", "") for name in reversed(self._below.get(None, []))]
        while left:
            name, before, branch = left.pop()
            tells = bool(self.after[name]) and not branch
            yield Line(before + branch, self.fans.get(name, (name,)), tells)
            guide = before + {"├─ ": "│  ", "└─ ": "   "}.get(branch, "")
            below = self._below.get(name, [])
            if len(guide) > WIDEST_GUIDE:
                left += [(each, "", "") for each in reversed(below)]
            elif len(below) == 1 and self.after[below[0]]:
                # A chain goes straight down.
                left.append((below[0], guide, ""))
            else:
                branches = ["├─ "] * (len(below) - 1) + ["└─ "]
                pairs = list(zip(below, branches, strict=True)) if below else []
                left += [(each, guide, branch) for each, branch in reversed(pairs)]

    def _above(self, name: str) -> str | None:
        """The node that it is drawn below; None if it begins on the left."""
        parents = self.after[name]
        if not parents:
            return self._group[name]
        # What waits for a nested flow comes after everything inside it.
        return parents[0] if len(parents) == 1 and parents[0] not in self._is_nested else None

    def _fold(
        self, order: Sequence[str], kinds: dict[str, str], children: dict[str, list[str]]
    ) -> dict[str, Sequence[str]]:
        """The nodes of each large fan, by each of them."""
        alike: dict[object, list[str]] = {}
        for name in order:
            if name not in self._is_nested:
                same = (
                    kinds[name],
                    self._group[name],
                    *map(tuple, (self.after[name], children[name])),
                )
                alike.setdefault(same, []).append(name)
        return {name: fan for fan in alike.values() if len(fan) >= FOLD for name in fan}


def draw(graph: FlowGraph, nodes: Sequence[NodeView], now: int) -> Iterator[Table | Text]:
    """The nodes of a run, with their states and durations."""
    views = {node.name: node for node in nodes}
    kinds = {node.name: node.kind for node in graph.nodes}
    known = [node for node in graph.nodes if node.name in views]
    edges = [edge for edge in graph.edges if views.keys() >= set(edge)]
    layout = Layout(FlowGraph(known, edges))
    drawn = Table.grid(padding=(0, 2, 0, 0), expand=True)
    drawn.add_column(no_wrap=True, overflow="ellipsis", max_width=max(20, console.width // 2))
    drawn.add_column(no_wrap=True)
    drawn.add_column(no_wrap=True, justify="right")
    drawn.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    shown = 0
    for count, line in enumerate(layout.lines()):
        if count >= MOST_LINES:
            break
        shown += len(line.nodes)
        parents = _parents(layout, line.nodes[0]) if line.tells_parents else ""
        if len(line.nodes) > 1:
            _add_fan(drawn, line, [views[name] for name in line.nodes], parents, now)
        else:
            node = views[line.nodes[0]]
            drawn.add_row(*_row(line.guide, node, kinds[node.name], parents, now))
    yield drawn
    if shown < len(views):
        yield Text(f"and {counted(len(views) - shown, 'node')} more; --json shows all", style=DIM)


def _row(guide: str, node: NodeView, kind: str, parents: str, now: int) -> tuple[Text, ...]:
    word, colour = _state(node)
    name = Text(guide, style=DIM) + Text("● ", style=colour) + Text(visible(node.name), "bold")
    began = node.started_at if word not in (SKIPPED, str(Status.BLOCKED)) else None
    took = "" if began is None else format_duration(max(0, (node.finished_at or now) - began))
    note = Text()
    if node.error and word == SKIPPED:
        note += Text(visible(node.error.removeprefix("skipped: ")) + "  ", style=DIM)
    elif node.error:
        note += Text(visible(node.error) + "  ", style="red")
    note += Text(parents, style=DIM)
    last = node.name.rpartition("/")[2]
    if last != kind and not last.startswith(f"{kind}-"):
        note += Text(f"{'  ' if parents else ''}{visible(kind)}", style=DIM)
    return name, Text(word, style=colour), Text(took, style=DIM), note


def _add_fan(drawn: Table, line: Line, fan: Sequence[NodeView], parents: str, now: int) -> None:
    states = [_state(node) for node in fan]
    found = {node.status for node in fan}
    telling = next((status for status in TELLING if status in found), Status.CANCELLED)
    name = Text(line.guide, style=DIM) + Text("● ", style=COLOURS[telling])
    note = Text()
    for (word, colour), count in Counter(states).most_common():
        note += Text(f"{count:,} {word}  ", style=colour)
    note += Text(parents, style=DIM)
    label = Text(f"{visible(fan[0].name)} … {visible(fan[-1].name)}", style="bold")
    drawn.add_row(name + label, Text(f"{len(fan):,} nodes"), Text(), note)
    failed = [node for node in fan if node.status is Status.FAILED][:MOST_FAILED]
    guide = line.guide.replace("├─ ", "│  ").replace("└─ ", "   ")
    for node in failed:
        branch = "└─ " if node is failed[-1] else "├─ "
        drawn.add_row(*_row(guide + branch, node, node.kind, "", now))


def _state(node: NodeView) -> tuple[str, str]:
    """What a node is, in a word and a colour."""
    if node.is_skipped:
        return SKIPPED, COLOURS[Status.CANCELLED]
    return str(node.status), COLOURS[node.status]


def _parents(layout: Layout, name: str) -> str:
    """What a node waits for; of a fan, the first and the last."""
    told: list[str] = []
    for parent in layout.after[name]:
        fan = layout.fans.get(parent)
        if fan is None:
            told.append(parent)
        elif parent == fan[0]:
            told.append(f"{fan[0]} … {fan[-1]}")
    more = f" and {len(told) - MOST_PARENTS:,} more" if len(told) > MOST_PARENTS else ""
    return f"← {visible(', '.join(told[:MOST_PARENTS]))}{more}"


def _group_of(name: str, names: dict[str, list[str]]) -> str | None:
    """The nested flow that a node is inside."""
    while "/" in name:
        name = name.rpartition("/")[0]
        if name in names:
            return name
    return None


def _members(group: dict[str, str | None]) -> dict[str, list[str]]:
    """All nodes inside each nested flow, however deep."""
    members: dict[str, list[str]] = {}
    for name in group:
        above = group.get(name)
        while above is not None:
            members.setdefault(above, []).append(name)
            above = group[above]
    return members
