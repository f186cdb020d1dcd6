"""Draws a flow run in the terminal: its nodes in an order in which they may run.

A node is a branch below the only node that it waits for, or below the nested flow that it is in.
If it waits for several nodes, they are listed beside it. A large fan of similar nodes is one line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from windlass.cli.output import COLOURS, console, counted, visible
from windlass.flow.model.graph import URGENT, placed
from windlass.flow.model.run import FlowGraph, NodeView
from windlass.value.duration import format_duration
from windlass.value.status import Status

MOST_LINES = 200
# At least this many similar nodes become one line; a few that failed are shown below it.
FOLD = 8
MOST_FAILED = 3
MOST_PARENTS = 3
# A branch further to the right begins again on the left.
WIDEST_GUIDE = 24

DIM = "bright_black"
SKIPPED = "skipped"
# The colour of a fan is that of the first status here that one of its nodes has.
BY_URGENCY = (*URGENT, Status.SUCCEEDED)


class PictureLine(NamedTuple):
    """A node or a fan, after the branches that lead to it."""

    guide: str
    nodes: Sequence[str]
    # Whether the branches do not show what it waits for.
    needs_parents: bool


class PictureLayout:
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
        # If the run changed while it was read, some nodes may have no place.
        order += self.after.keys() - set(order)
        kinds = {node.name: node.kind for node in graph.nodes}
        self.fans = self._fold(order, kinds, children)
        self._below: dict[str | None, list[str]] = {}
        for name in order:
            if self.fans.get(name, (name,))[0] == name:
                self._below.setdefault(self._above(name), []).append(name)

    def lines(self) -> Iterator[PictureLine]:
        """The lines of the picture, from top to bottom."""
        left = [(name, "", "") for name in reversed(self._below.get(None, []))]
        while left:
            name, before, branch = left.pop()
            needs_parents = bool(self.after[name]) and not branch
            yield PictureLine(before + branch, self.fans.get(name, (name,)), needs_parents)
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
        """The node above it; None if it begins on the left."""
        parents = self.after[name]
        if not parents:
            return self._group[name]
        # A node that waits for a nested flow comes after everything inside it.
        return parents[0] if len(parents) == 1 and parents[0] not in self._is_nested else None

    def _fold(
        self, order: Sequence[str], kinds: dict[str, str], children: dict[str, list[str]]
    ) -> dict[str, Sequence[str]]:
        """Maps each node of a large fan to all nodes of that fan."""
        alike: dict[object, list[str]] = {}
        for name in order:
            if name not in self._is_nested:
                edges = tuple(self.after[name]), tuple(children[name])
                alike.setdefault((kinds[name], self._group[name], *edges), []).append(name)
        return {name: fan for fan in alike.values() if len(fan) >= FOLD for name in fan}


def draw(graph: FlowGraph, nodes: Sequence[NodeView], now: int) -> Iterator[Table | Text]:
    """The nodes of a flow run, with status and duration."""
    views = {node.name: node for node in nodes}
    kinds = {node.name: node.kind for node in graph.nodes}
    known = [node for node in graph.nodes if node.name in views]
    edges = [edge for edge in graph.edges if views.keys() >= set(edge)]
    layout = PictureLayout(FlowGraph(known, edges))
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
        parents = _parents(layout, line.nodes[0]) if line.needs_parents else ""
        if len(line.nodes) > 1:
            fan = [views[name] for name in line.nodes]
            _add_fan(drawn, fan, guide=line.guide, parents=parents, now=now)
        else:
            node = views[line.nodes[0]]
            cells = _row(node, kinds[node.name], guide=line.guide, parents=parents, now=now)
            drawn.add_row(*cells)
    yield drawn
    if shown < len(views):
        yield Text(f"and {counted(len(views) - shown, 'node')} more; --json shows all", style=DIM)


def _row(node: NodeView, kind: str, *, guide: str, parents: str, now: int) -> tuple[Text, ...]:
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


def _add_fan(drawn: Table, fan: Sequence[NodeView], *, guide: str, parents: str, now: int) -> None:
    states = [_state(node) for node in fan]
    found = {node.status for node in fan}
    urgent = next((status for status in BY_URGENCY if status in found), Status.CANCELLED)
    name = Text(guide, style=DIM) + Text("● ", style=COLOURS[urgent])
    note = Text()
    for (word, colour), count in Counter(states).most_common():
        note += Text(f"{count:,} {word}  ", style=colour)
    note += Text(parents, style=DIM)
    label = Text(f"{visible(fan[0].name)} … {visible(fan[-1].name)}", style="bold")
    drawn.add_row(name + label, Text(f"{len(fan):,} nodes"), Text(), note)
    failed = [node for node in fan if node.status is Status.FAILED][:MOST_FAILED]
    below = guide.replace("├─ ", "│  ").replace("└─ ", "   ")
    for node in failed:
        branch = "└─ " if node is failed[-1] else "├─ "
        drawn.add_row(*_row(node, node.kind, guide=below + branch, parents="", now=now))


def _state(node: NodeView) -> tuple[str, str]:
    """The status of a node: a word and its colour."""
    if node.is_skipped:
        return SKIPPED, COLOURS[Status.CANCELLED]
    return str(node.status), COLOURS[node.status]


def _parents(layout: PictureLayout, name: str) -> str:
    """What a node waits for; the first and the last node stand for a fan."""
    names: list[str] = []
    for parent in layout.after[name]:
        fan = layout.fans.get(parent)
        if fan is None:
            names.append(parent)
        elif parent == fan[0]:
            names.append(f"{fan[0]} … {fan[-1]}")
    more = f" and {len(names) - MOST_PARENTS:,} more" if len(names) > MOST_PARENTS else ""
    return f"← {visible(', '.join(names[:MOST_PARENTS]))}{more}"


def _group_of(name: str, names: dict[str, list[str]]) -> str | None:
    """The nested flow that a node is in."""
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
