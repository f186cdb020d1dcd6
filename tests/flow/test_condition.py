"""Conditions of nodes: they decide, whatever was returned, and run nothing."""

import pytest

from windlass import BadFlow
from windlass.flow.model.node import NodeCondition

RESULTS = {
    "load": {"rows": 3, "name": "bolt", "parts": [1, 2, 5]},
    "step-2": {"rows": 7},
    "nothing": None,
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("load.result.rows > 2", True),
        ("-load.result.rows < 0", True),
        ("-load.result.name > 0", False),
        ("-load.result.gone > 0", False),
        ("-nothing.result == None", True),
        ('load.result["parts"][-1] == 5', True),
        ("load.result.parts[-4] == 1", False),
        ("len(load.result.parts) == 3 and not nothing.result", True),
        ('node("step-2").result.rows == 7', True),
        ('node("load").result.rows in [1, 3]', True),
        ("load.result.rows in load.result", False),
    ],
)
def test_a_condition_decides(text, holds):
    assert NodeCondition(text, node="x").holds(RESULTS) is holds


def test_a_condition_tells_which_nodes_it_needs():
    text = 'load.result.rows > 0 and node("step-2").result.result > load.result[0]'

    assert NodeCondition(text, node="x").needs == {"load", "step-2"}


@pytest.mark.parametrize(
    "text",
    [
        "load",
        "load.result.rows + 1",
        "open('x')",
        "node(load.result).result",
        "load.result[load.result]",
        "load.result[1:2]",
        "node('a', 'b').result",
    ],
)
def test_what_is_not_a_condition_is_refused(text):
    with pytest.raises(BadFlow, match="only results of nodes"):
        NodeCondition(text, node="x")


@pytest.mark.parametrize(
    "text",
    ["-" * 900 + "1", "not " * 200 + "1", "a.result" + ".a" * 400, "(" * 300 + "1" + ")" * 300],
)
def test_a_condition_that_is_nested_too_deeply_is_refused(text):
    with pytest.raises(BadFlow):
        NodeCondition(text, node="x")
