"""Conditions: `when="load.result.rows > 0"`, a small expression over results. Never eval.

Names are nodes, and what follows `.result` are keys, attributes or positions in what they returned.
A node whose name is no name in Python is `node("load-2")`. Something that is not there is None, so
that a condition decides and never fails.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
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


class Condition:
    """An expression that was read and found harmless."""

    def __init__(self, text: object, *, node: str) -> None:
        if not isinstance(text, str) or not text.strip() or len(text) > LONGEST:
            raise BadFlow(
                f'node {node!r}: when={text!r} is no condition; write when="load.result.rows > 0"'
            )
        self.text = text.strip()
        self._node = node
        self.needs: set[str] = set()
        try:
            self._tree = ast.parse(self.text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
            raise BadFlow(f"node {node!r}: when={text!r} cannot be read: {problem}") from problem
        self._check(self._tree, depth=1)

    def holds(self, results: Mapping[str, object]) -> bool:
        """Whether it is so, given the results of the nodes that it needs."""
        return bool(_value(self._tree, results))

    def _check(self, tree: ast.expr, *, depth: int) -> None:
        if depth > DEEPEST:
            raise BadFlow(
                f"node {self._node!r}: when={self.text[:40]!r}... is nested too deeply; "
                f"at most {DEEPEST} levels"
            )
        name = _node_of(tree)
        if name is not None:
            self.needs.add(name)
            return
        match tree:
            case ast.BoolOp():
                parts: list[ast.expr] = tree.values
            case ast.UnaryOp(op=ast.Not() | ast.USub()):
                parts = [tree.operand]
            case ast.Compare():
                parts = [tree.left, *tree.comparators]
            case ast.List() | ast.Tuple():
                parts = tree.elts
            case ast.Call(func=ast.Name(id="len"), args=[only], keywords=[]):
                parts = [only]
            case ast.Constant(value=None | bool() | int() | float() | str()):
                parts = []
            case ast.Attribute():
                parts = [tree.value]
            case ast.Subscript() if _place_of(tree) is not None:
                parts = [tree.value]
            case _:
                raise BadFlow(
                    f"node {self._node!r}: when={self.text!r} has "
                    f"{ast.get_source_segment(self.text, tree)!r} in it; only results of nodes, "
                    "constants, comparisons, len, and, or, not are allowed"
                )
        for part in parts:
            self._check(part, depth=depth + 1)


def _node_of(tree: ast.expr) -> str | None:
    """The node whose result that is: `load.result`, or `node("load-2").result`."""
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


def _value(tree: ast.expr, results: Mapping[str, object]) -> Any:
    name = _node_of(tree)
    if name is not None:
        return results.get(name)
    match tree:
        case ast.BoolOp(op=ast.And()):
            return all(_value(part, results) for part in tree.values)
        case ast.BoolOp():
            return any(_value(part, results) for part in tree.values)
        case ast.UnaryOp(op=ast.Not()):
            return not _value(tree.operand, results)
        case ast.UnaryOp():
            number = _value(tree.operand, results)
            return -number if isinstance(number, int | float) else None
        case ast.Compare():
            return _compare(tree, results)
        case ast.List() | ast.Tuple():
            return [_value(part, results) for part in tree.elts]
        case ast.Call():
            found = _value(tree.args[0], results)
            return len(found) if isinstance(found, str | list | dict) else 0
        case ast.Constant():
            return tree.value
        case ast.Attribute():
            return _part(_value(tree.value, results), tree.attr)
        case ast.Subscript():
            return _part(_value(tree.value, results), _place_of(tree))
    raise AssertionError(f"an unchecked condition: {ast.dump(tree)}")


def _compare(tree: ast.Compare, results: Mapping[str, object]) -> bool:
    left = _value(tree.left, results)
    for sign, part in zip(tree.ops, tree.comparators, strict=True):
        right = _value(part, results)
        try:
            if not COMPARE[type(sign)](left, right):
                return False
        except TypeError:
            # Such as None > 0: there is nothing of which that could be so.
            return False
        left = right
    return True


def _part(found: object, place: str | int | None) -> object:
    if isinstance(found, dict):
        return found.get(place)
    if isinstance(found, list) and isinstance(place, int) and -len(found) <= place < len(found):
        return found[place]
    return None
