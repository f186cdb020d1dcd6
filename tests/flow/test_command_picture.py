"""The picture of a run: every node once, after what it waits for, below what it belongs to."""

from io import StringIO
from itertools import pairwise

from rich.console import Console

from windlass.flow.command.picture import PictureLayout, draw
from windlass.flow.model.run import FlowGraph, GraphNode, NodeView
from windlass.value.status import Status


def graph(*names, edges=(), kind="k"):
    return FlowGraph([GraphNode(name, kind) for name in names], list(edges))


def drawn(picture):
    """The lines, with what is written of parents."""
    layout = PictureLayout(picture)
    return [
        f"{line.guide}{'..'.join([line.nodes[0], *line.nodes[1:][-1:]])}"
        + (f" <- {','.join(layout.after[line.nodes[0]])}" if line.needs_parents else "")
        for line in layout.lines()
    ]


def view(name, status, **more):
    facts = {"result": None, "error": None, "id": 1, "attempt": 0, "open_slots": 0, "due_at": None}
    facts |= {"started_at": 1_000_000, "finished_at": 3_000_000}
    return NodeView(name=name, kind="k", status=status, **facts | more)


def text(nodes, edges, width=80):
    out = StringIO()
    picture = graph(*(node.name for node in nodes), edges=edges)
    console = Console(file=out, width=width, highlight=False)
    for part in draw(picture, nodes, 9_000_000):
        console.print(part)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_child_is_below_its_own_parent():
    picture = graph("a", "b", "a1", "b1", "a2", edges=[("a", "a1"), ("a", "a2"), ("b", "b1")])

    assert drawn(picture) == ["a", "├─ a1", "└─ a2", "b", "b1 <- b"]


def test_a_chain_goes_straight_down():
    names = [f"n{number}" for number in range(2_000)]

    lines = drawn(graph(*names, edges=pairwise(names)))

    assert lines[:3] == ["n0", "n1 <- n0", "n2 <- n1"]
    assert len(lines) == len(names)


def test_what_waits_for_several_comes_after_all_of_them():
    edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "e"), ("c", "f")]

    assert drawn(graph(*"fedcba", edges=edges)) == [
        *("a", "├─ c", "│  f <- c", "└─ b", "d <- b,c", "e <- d")
    ]


def test_what_is_inside_a_nested_flow_is_below_it_and_what_waits_for_it_comes_later():
    names = ["n", "last", "n/a", "n/b", "n/c"]
    edges = [("n", "last"), ("n/a", "n/c"), ("n/b", "n/c")]

    assert drawn(graph(*names, edges=edges)) == [
        *("n", "├─ n/a", "└─ n/b", "n/c <- n/a,n/b", "last <- n")
    ]


def test_a_large_fan_is_one_line():
    fan = [f"leaf-{number}" for number in range(1, 201)]
    edges = [("a", leaf) for leaf in fan] + [(leaf, "z") for leaf in fan]
    nodes = [view("a", Status.SUCCEEDED)]
    nodes += [view(leaf, Status.SUCCEEDED) for leaf in fan[:-2]]
    nodes += [view(fan[-2], Status.RUNNING), view(fan[-1], Status.FAILED, error="broken")]
    nodes += [view("z", Status.BLOCKED)]

    lines = text(nodes, edges)

    assert len(lines) == 4
    assert "● leaf-1 … leaf-200" in lines[1]
    assert "198 succeeded  1 running  1 failed" in lines[1]
    assert "└─ ● leaf-200" in lines[2]
    assert "broken" in lines[2]
    assert "← leaf-1 … leaf-200" in lines[3]


def test_a_skipped_node_is_called_skipped():
    lines = text(
        [
            view("a", Status.SUCCEEDED, is_skipped=True),
            view("b", Status.CANCELLED, is_skipped=True, error="skipped: when a.result > 0"),
            view("c", Status.SUCCEEDED),
        ],
        [],
    )

    assert [line.split()[2] for line in lines] == ["skipped", "skipped", "succeeded"]
    assert "2.0s" not in lines[0]
    assert "when a.result > 0" in lines[1]
    assert "2.0s" in lines[2]


def test_a_wide_graph_is_cut_and_says_so():
    nodes = [view(f"n{number}", Status.SUCCEEDED) for number in range(300)]
    edges = [(f"n{number}", f"n{number + 1}") for number in range(299)]

    lines = text(nodes, edges)

    assert lines[-1] == "and 100 nodes more; --json shows all"
