"""A run as it is drawn in a terminal: how far it is, then its nodes below what they wait for.

One node is one line, whatever the width. Nodes that are alike, as those of a fan, are one line
together; those of them that failed are named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from windlass.app import App
from windlass.cli.output import COLOURS, console, counted, status_text, timestamp, visible, when
from windlass.declare.flow import FlowRun
from windlass.model.duration import format_duration
from windlass.model.flow import BLOCKED_BY
from windlass.model.run import FlowGraph, FlowProgress, NodeView
from windlass.model.status import Status

BAR = 30
MOST_DRAWN = 200
# So many nodes that are alike are still drawn one by one.
ALIKE = 8
NAMED = 3
MARKS = {
    Status.WAITING: "○",
    Status.RUNNING: "▶",
    Status.SUCCEEDED: "✔",
    Status.FAILED: "✘",
    Status.BLOCKED: "◌",
    Status.EXTERNAL: "⇄",
    Status.CANCELLED: "⊘",
}
FAINT = "bright_black"


def picture(loaded: App, run: FlowRun) -> RenderableType:
    """A run as it is now."""
    row, progress = loaded.flows.run(run.id), run.progress()
    now = loaded.clock.now()
    head = Text("run ") + Text(f"{run.id} ", style="bold") + Text(visible(row.kind), style="bold")
    head += Text(" ") + status_text(row.status)
    head += Text(f" {took(row.created_at, row.finished_at, now)}", style=FAINT)
    if row.key is not None:
        head += Text(f" key {visible(row.key)}", style=FAINT)
    begun = f"started {timestamp(row.created_at)}, {when(row.created_at, now=now)}"
    lines = [head, *_bar(progress), Text(begun, style=FAINT)]
    if row.remark:
        lines.append(Text(visible(row.remark), style="red"))
    return Group(*lines, Text(), *_tree(run.graph(), run.nodes(), now))


def took(begin: int | None, end: int | None, now: int) -> str:
    """How long something took, or has taken by now."""
    return "-" if begin is None else format_duration(max(0, (end or now) - begin))


def _bar(progress: FlowProgress) -> Iterator[Text]:
    width = max(5, min(BAR, console.width - 10))
    filled = int(width * progress.percent / 100)
    bar = Text("█" * filled, style="green") + Text("░" * (width - filled), style=FAINT)
    yield bar + Text(f" {progress.percent:5.1f} %")
    yield _counts({status: count for status, count in progress.counts.items() if count})


def _counts(counts: dict[Status, int]) -> Text:
    parts = [
        Text(f"{count:,} {status}", style=COLOURS[status])
        for status, count in sorted(counts.items())
    ]
    return Text(", ").join(parts)


def _tree(graph: FlowGraph, nodes: list[NodeView], now: int) -> Iterator[Text]:
    """The lines of the nodes, each below the last of those that it waits for."""
    after: dict[str, list[str]] = {node.name: [] for node in nodes}
    for parent, child in graph.edges:
        if parent in after and child in after:
            after[child].append(parent)
    below = _below(nodes, after)
    stack = [(0, group) for group in reversed(_alike(below[""], after))]
    seen = lines = 0
    while stack and lines < MOST_DRAWN:
        step, group = stack.pop()
        seen += len(group)
        for line in _group(group, after[group[0].name], now):
            lines += 1
            line.pad_left(2 * min(step, console.width // 8))
            line.no_wrap, line.overflow = True, "ellipsis"
            yield line
        inside = [node for each in group for node in below.get(each.name, ())]
        stack += [(step + 1, each) for each in reversed(_alike(inside, after))]
    if seen < len(nodes):
        yield Text(f"and {counted(len(nodes) - seen, 'node')} more; --json shows all", style=FAINT)


def _below(nodes: list[NodeView], after: dict[str, list[str]]) -> dict[str, list[NodeView]]:
    """Below which node each is drawn: the last that it waits for, or the flow that it is in."""
    depth = _depths(after)
    below: dict[str, list[NodeView]] = {"": []}
    for node in sorted(nodes, key=lambda node: node.id):
        group = node.name.rpartition("/")[0]
        above = after[node.name] or ([group] if group in after else [""])
        last = max(above, key=lambda name: depth.get(name, 0))
        below.setdefault(last, []).append(node)
    return below


def _alike(nodes: list[NodeView], after: dict[str, list[str]]) -> list[list[NodeView]]:
    """Nodes of one kind that wait for the same ones together, if they are many."""
    groups: dict[tuple[str, tuple[str, ...]], list[NodeView]] = {}
    for node in nodes:
        groups.setdefault((node.kind, tuple(sorted(after[node.name]))), []).append(node)
    few = [[node] for group in groups.values() if len(group) <= ALIKE for node in group]
    many = [group for group in groups.values() if len(group) > ALIKE]
    return sorted(few + many, key=lambda group: group[0].id)


def _group(alike: Sequence[NodeView], parents: list[str], now: int) -> Iterator[Text]:
    if len(alike) == 1:
        yield _line(alike[0], parents, now)
        return
    counts = Counter(node.status for node in alike)
    worst = next(
        (each for each in (Status.FAILED, Status.RUNNING) if counts[each]), alike[0].status
    )
    line = Text(f"{MARKS[worst]} ", style=COLOURS[worst])
    line += Text(f"{visible(alike[0].kind)} x {len(alike):,} ", style="bold")
    yield line + _counts(dict(counts)) + _waits(parents)
    broken = [node for node in alike if node.status is Status.FAILED]
    for node in broken[:NAMED]:
        yield Text("  ") + _line(node, [], now)
    if len(broken) > NAMED:
        yield Text(f"  and {counted(len(broken) - NAMED, 'node')} more that failed", style="red")


def _line(node: NodeView, parents: list[str], now: int) -> Text:
    colour = COLOURS[node.status]
    is_blocked = bool(node.error) and str(node.error).startswith(BLOCKED_BY)
    line = Text(f"{MARKS[node.status]} ", style=colour) + Text(visible(node.name), style="bold")
    line += Text(f" {node.status}", style=colour)
    if node.started_at is not None and node.status is not Status.BLOCKED:
        end = node.finished_at if node.status.is_final else None
        line += Text(f" {took(node.started_at, end, now)}", style=FAINT)
    if node.attempt > 1:
        line += Text(f" attempt {node.attempt}", style="yellow")
    if node.error:
        line += Text(f" {visible(node.error)}", style=FAINT if is_blocked else "red")
    if node.kind != node.name:
        line += Text(f" {visible(node.kind)}", style=FAINT)
    return line + _waits(parents)


def _waits(parents: list[str]) -> Text:
    if not parents:
        return Text()
    shown = ", ".join(parents[:3]) + (f" and {len(parents) - 3:,} more" if len(parents) > 3 else "")
    return Text(f" ← {visible(shown)}", style=FAINT)


def _depths(after: dict[str, list[str]]) -> dict[str, int]:
    children: dict[str, list[str]] = {}
    for name, parents in after.items():
        for parent in parents:
            children.setdefault(parent, []).append(name)
    left = {name: len(parents) for name, parents in after.items()}
    # What was changed while it was read stays at the left.
    depth = dict.fromkeys(after, 0)
    ready = [name for name, count in left.items() if not count]
    while ready:
        name = ready.pop()
        for child in children.get(name, ()):
            depth[child] = max(depth[child], depth[name] + 1)
            left[child] -= 1
            if not left[child]:
                ready.append(child)
    return depth
