"""The graph of a flow: what is refused, and in how few steps; progress and pictures of it."""

import copy

import pytest

from windlass import BadFlow
from windlass.flow.declare import read_template
from windlass.flow.model.graph import NodeShape, check_graph, placed
from windlass.flow.model.node import Result, Results
from windlass.flow.model.run import FlowProgress
from windlass.value.status import Status


class Counted(tuple):
    """Parents that count how often they were walked over."""

    walks = 0

    def __iter__(self):
        Counted.walks += 1
        return super().__iter__()


def test_results_from_far_above_are_checked_in_one_pass():
    names = [f"n{number}" for number in range(500)]
    known = {"root": Counted()}
    known |= {
        name: Counted([before]) for before, name in zip(["root", *names], names, strict=False)
    }
    shapes = [NodeShape(f"end{each}", "k", ("n499",), needs=frozenset(["root"])) for each in names]
    Counted.walks = 0

    check_graph(shapes, known=known)

    assert Counted.walks < 10 * len(known)


def test_a_result_of_a_node_that_need_not_have_ended_is_refused():
    shapes = [
        NodeShape("a", "k", ()),
        NodeShape("b", "k", ("a",)),
        NodeShape("c", "k", ("a",)),
        NodeShape("d", "k", ("b",), needs=frozenset("a")),
    ]
    check_graph(shapes, known={})

    wrong = NodeShape("e", "k", ("b",), needs=frozenset("ac"))
    with pytest.raises(BadFlow, match="'e' is given the result of 'c'"):
        check_graph([*shapes, wrong], known={})


def test_nodes_are_placed_after_what_they_wait_for():
    after = {"d": ["b", "c"], "b": ["a"], "c": ["a", "elsewhere"], "a": [], "x": ["y"], "y": ["x"]}

    assert placed(after) == ["a", "b", "c", "d"]


def test_a_result_is_decoded_once_for_all_who_need_it():
    results = Results({1: '{"rows": [1, 2]}', 2: None})

    assert results.get(1) == {"rows": [1, 2]}
    assert results.get(1) is results.get(1)
    assert (results.get(2), results.get(3)) == (None, None)


def test_a_result_that_is_not_there_yet_cannot_be_gone_over_or_written():
    result = Result("load")["rows"]

    with pytest.raises(BadFlow, match=r"context\(\)\.flow\.each"):
        list(result)
    with pytest.raises(BadFlow, match="cannot be put into a text"):
        f"{result}"
    with pytest.raises(BadFlow, match="cannot be put into a text"):
        str(result)
    assert "load" in repr(result)


def test_progress_can_be_copied():
    progress = FlowProgress(3, {Status.FAILED: 1, Status.SUCCEEDED: 2})

    for same in (copy.copy(progress), copy.deepcopy(progress)):
        assert same == progress
        assert (same.failed, same.running, same.done) == (1, 0, 2)
    with pytest.raises(AttributeError):
        _ = progress.gone


def test_a_large_template_is_read():
    nodes = [{"name": f"n{number}", "kind": "k"} for number in range(20_000)]

    assert len(read_template("large", {"nodes": nodes}).nodes) == 20_000
    with pytest.raises(BadFlow, match="two nodes are named 'n7'"):
        read_template("large", {"nodes": [*nodes, nodes[7]]})
