"""The payload of a node: its arguments, with gaps for the results of other nodes.

A node without gaps has a payload like any task. A payload with gaps begins with a mark, and is
filled just before the node runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from windlass.errors import BadFlow
from windlass.flow.model.condition import NodeCondition
from windlass.flow.model.graph import SKIPPED
from windlass.value.outcome import Skip

FILL = "windlass:fill"
RESULT = "windlass:result"
RUN = "windlass:run"

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


class Results:
    """Results by the id of their node; each is decoded only once."""

    def __init__(self, encoded: Mapping[int, str | None]) -> None:
        self._encoded = encoded
        self._decoded: dict[int, Any] = {}

    def get(self, number: int) -> Any:
        """What the node returned; None if it did not succeed."""
        if number not in self._decoded:
            self._decoded[number] = _decode(self._encoded.get(number) or "null")
        return self._decoded[number]

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
    """The payload with the results filled in; raises Skip if the condition does not hold."""
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


class RunHead(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the row of a flow run holds besides its arguments."""

    keep: int
    template: str | None = None
    version: int | None = None


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


def arguments_of(payload: str) -> dict[str, object]:
    """The arguments of a flow run or node, as they were given."""
    return {name: value for name, value in _decode(payload).items() if name not in (RUN, FILL)}
