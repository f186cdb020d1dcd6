"""The condition of a node: `when="load.result.rows > 0"`, a small safe expression. Never eval.

A name is a node, and what follows `.result` are keys or positions in what the node returned. A node
whose name is not a Python name is written `node("load-2")`. A missing value is None, so a condition
always gives an answer and never fails.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from windlass.errors import BadFlow

LONGEST = 1_000
DEEPEST = 50

COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}

Value = Callable[[Mapping[str, object]], Any]


class NodeCondition:
    """An expression that was checked; `needs` are the nodes whose results it reads."""

    def __init__(self, text: object, *, node: str) -> None:
        if not isinstance(text, str) or not text.strip() or len(text) > LONGEST:
            raise BadFlow(
                f"node {node!r}: when={text!r} is not a condition; "
                'write when="load.result.rows > 0"'
            )
        self.text = text.strip()
        self.needs: set[str] = set()
        self._node = node
        try:
            tree = ast.parse(self.text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
            raise BadFlow(f"node {node!r}: when={text!r} cannot be read: {problem}") from problem
        self._value = self._read(tree, depth=1)

    def holds(self, results: Mapping[str, object]) -> bool:
        """Whether the condition is true, given the results of the nodes that it needs."""
        return bool(self._value(results))

    def _read(self, tree: ast.expr, *, depth: int) -> Value:
        if depth > DEEPEST:
            raise BadFlow(
                f"node {self._node!r}: when={self.text[:40]!r}... is nested too deeply; "
                f"at most {DEEPEST} levels"
            )
        name = _node_of(tree)
        if name is not None:
            self.needs.add(name)
            return lambda results: results.get(name)

        function, parts = self._operation(tree)
        values = [self._read(part, depth=depth + 1) for part in parts]
        return lambda results: function(*(value(results) for value in values))

    def _operation(self, tree: ast.expr) -> tuple[Callable[..., Any], Sequence[ast.expr]]:
        match tree:
            case ast.BoolOp():
                decide = all if isinstance(tree.op, ast.And) else any
                return lambda *values: decide(values), tree.values
            case ast.UnaryOp(op=ast.Not()):
                return operator.not_, [tree.operand]
            case ast.UnaryOp(op=ast.USub()):
                return _minus, [tree.operand]
            case ast.Compare():
                signs = [COMPARE[type(sign)] for sign in tree.ops]
                return partial(_compare, signs), [tree.left, *tree.comparators]
            case ast.List() | ast.Tuple():
                return lambda *values: list(values), tree.elts
            case ast.Call(func=ast.Name(id="len"), args=[only], keywords=[]):
                return _length, [only]
            case ast.Constant(value=None | bool() | int() | float() | str() as constant):
                return lambda: constant, []
            case ast.Attribute(attr=name):
                return partial(_part, name), [tree.value]
            case ast.Subscript() if (place := _place_of(tree)) is not None:
                return partial(_part, place), [tree.value]
        raise BadFlow(
            f"node {self._node!r}: when={self.text!r} has "
            f"{ast.get_source_segment(self.text, tree)!r} in it; only results of nodes, "
            "constants, comparisons, len, and, or, not are allowed"
        )


def _node_of(tree: ast.expr) -> str | None:
    """The node whose result this is: `load.result`, or `node("load-2").result`."""
    match tree:
        case ast.Attribute(
            value=ast.Call(
                func=ast.Name(id="node"), args=[ast.Constant(value=str(name))], keywords=[]
            ),
            attr="result",
        ):
            return name
        case ast.Attribute(value=ast.Name(id=name), attr="result"):
            return name
    return None


def _place_of(tree: ast.Subscript) -> str | int | None:
    """The key or position: `["rows"]`, `[0]`, `[-1]`."""
    match tree.slice:
        case ast.Constant(value=int() | str() as place):
            return place
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(place))):
            return -place
    return None


def _minus(number: object) -> int | float | None:
    return -number if isinstance(number, int | float) else None


def _length(found: object) -> int:
    return len(found) if isinstance(found, str | list | dict) else 0


def _compare(signs: Sequence[Callable[[Any, Any], Any]], *values: Any) -> bool:
    try:
        return all(
            sign(left, right)
            for sign, left, right in zip(signs, values[:-1], values[1:], strict=True)
        )
    except TypeError:
        # None > 0: a missing value compares with nothing.
        return False


def _part(place: str | int, found: object) -> object:
    if isinstance(found, dict):
        return found.get(place)
    if isinstance(found, list) and isinstance(place, int) and -len(found) <= place < len(found):
        return found[place]
    return None
