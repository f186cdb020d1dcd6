"""The payload of a node: its condition, and its arguments with gaps for the results of others.

A node without gaps has a payload like any task. A payload with gaps begins with a mark, and is
filled just before the node runs.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import msgspec

from windlass.errors import BadFlow
from windlass.flow.model.graph import SKIPPED
from windlass.value.outcome import Skip
from windlass.value.payload import TRACE
from windlass.value.task import KEEP_FAILED

FILL = "windlass:fill"
RESULT = "windlass:result"
RUN = "windlass:run"

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

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True)
class Result:
    """The future result of a node, or the part at `path`; an argument of a later node."""

    node: str
    path: tuple[str | int, ...] = ()

    def __getitem__(self, place: str | int) -> Result:
        if not isinstance(place, str | int) or isinstance(place, bool):
            raise BadFlow(f"a result has keys and positions, not {place!r}")
        return Result(self.node, (*self.path, place))

    def __iter__(self) -> Iterator[Result]:
        raise BadFlow(
            f"the result of node {self.node!r} is not known while the flow is drawn, so it cannot "
            "be iterated; let a node add others with context().flow.each(...) when it runs"
        )

    def __str__(self) -> str:
        raise BadFlow(
            f"the result of node {self.node!r} is not known while the flow is drawn, so it cannot "
            "be put into a text; give it to a node as an argument"
        )

    def __format__(self, _how: str) -> str:
        return str(self)


def results_in(value: object) -> set[str]:
    """The nodes whose results are used anywhere in `value`."""
    found: set[str] = set()
    replaced(value, lambda result: found.add(result.node))
    return found


def replaced(value: object, by: Callable[[Result], object]) -> object:
    """`value` with each result in it replaced; the same object if it has none."""
    match value:
        case Result():
            return by(value)
        case dict():
            if RESULT in value or FILL in value:
                raise BadFlow(f"an argument has the key {RESULT!r}, which is reserved")
            made = {key: replaced(part, by) for key, part in value.items()}
            is_same = all(made[key] is part for key, part in value.items())
            return value if is_same else made
        case list() | tuple():
            parts = [replaced(part, by) for part in value]
            is_same = all(one is other for one, other in zip(parts, value, strict=True))
            return value if is_same else parts
    return value


def to_fill(
    arguments: Mapping[str, object],
    *,
    when: str | None,
    needs: Mapping[str, int],
    names: Mapping[str, int],
) -> str:
    """A payload with gaps.

    `needs` are the ids of the nodes whose results it uses; `names` those in the condition.
    """
    head = {"when": when, "needs": sorted(set(needs.values())), "names": dict(names)}
    places = {
        name: replaced(value, lambda result: {RESULT: [needs[result.node], *result.path]})
        for name, value in arguments.items()
    }
    return _encode({FILL: head, **places}).decode()


def is_to_fill(payload: str) -> bool:
    """Whether a payload has gaps."""
    return payload.startswith(f'{{"{FILL}"')


class Blank(NamedTuple):
    """A payload with gaps, decoded."""

    when: str | None
    needs: list[int]
    names: dict[str, int]
    arguments: dict[str, Any]


def read_blank(payload: str) -> Blank:
    """Decode a payload with gaps."""
    arguments = _decode(payload)
    return Blank(**arguments.pop(FILL), arguments=arguments)


@dataclass(eq=False)
class Results:
    """Results by the id of their node; each is decoded only once."""

    encoded: Mapping[int, str | None]
    decoded: dict[int, Any] = field(init=False, default_factory=dict)

    def get(self, number: int) -> Any:
        """What the node returned; None if it did not succeed."""
        if number not in self.decoded:
            self.decoded[number] = _decode(self.encoded.get(number) or "null")
        return self.decoded[number]

    def part(self, number: int, path: list[str | int]) -> Any:
        """The part at `path` of what the node returned; None if there is none."""
        found = self.get(number)
        for place in path:
            try:
                found = found[place]
            except (KeyError, IndexError, TypeError):
                found = None
        return found


def filled(blank: Blank, results: Results) -> str:
    """The payload with the results filled in; raises Skip if the condition is false."""
    if blank.when is not None:
        named = {name: results.get(number) for name, number in blank.names.items()}
        if not NodeCondition(blank.when, node="").holds(named):
            raise Skip(f"{SKIPPED}when {blank.when}")
    return _encode(_filled(blank.arguments, results.part)).decode()


def as_drawn(payload: str, names: Mapping[int, str]) -> tuple[str | None, dict[str, object]]:
    """The condition and the arguments of a node as they were drawn; `names` maps id to node."""
    if not is_to_fill(payload):
        return None, arguments_of(payload)
    blank = read_blank(payload)
    blank.arguments.pop(TRACE, None)
    return blank.when, _filled(
        blank.arguments, lambda number, path: Result(names.get(number, str(number)), tuple(path))
    )


def _filled(value: Any, by: Callable[[int, list[str | int]], object]) -> Any:
    if isinstance(value, list):
        return [_filled(part, by) for part in value]
    if not isinstance(value, dict):
        return value
    if RESULT not in value:
        return {key: _filled(part, by) for key, part in value.items()}
    number, *path = value[RESULT]
    return by(number, path)


# The kind of the task that ends a flow run after its timeout.
TIMEOUT = "windlass:flow-timeout"


class RunHead(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the row of a flow run holds besides its arguments."""

    keep: int
    template: str | None = None
    version: int | None = None
    # When its first nodes are due, if that is later than its start.
    delay: int = 0
    at: int | None = None
    # How long it may take.
    timeout: int | None = None

    def begins_at(self, created_at: int) -> int:
        """When a flow run that was written at `created_at` begins."""
        return created_at + self.delay if self.at is None else max(created_at, self.at)


def with_head(payload: str, head: RunHead) -> str:
    """The payload of a flow run: its head, then its arguments."""
    rest = payload[1:].lstrip()
    comma = "" if rest.startswith("}") else ","
    return f'{{"{RUN}":{_encode(head).decode()}{comma}{rest}'


def head_of(payload: str) -> RunHead | None:
    """The head in the payload of a flow run; None in the payload of a task."""
    found = _decode(payload)
    head = found.get(RUN) if isinstance(found, dict) else None
    return None if head is None else msgspec.convert(head, RunHead)


def keep_of(payload: str) -> int:
    """How long a flow run is kept after its end."""
    head = head_of(payload)
    return KEEP_FAILED if head is None else head.keep


def arguments_of(payload: str) -> dict[str, object]:
    """The arguments of a flow run or node, as they were given."""
    reserved = (RUN, FILL, TRACE)
    return {name: value for name, value in _decode(payload).items() if name not in reserved}


class NodeCondition:
    """`when="load.result.rows > 0"`: a small safe expression that was checked. Never eval.

    A name is a node, and what follows `.result` are keys or positions in what the node returned. A
    node whose name is not a Python name is written `node("load-2")`. A missing value is None, so a
    condition always gives an answer and never fails. `needs` are the nodes whose results it reads.
    """

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
