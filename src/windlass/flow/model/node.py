"""The payload of a node: its arguments, with the places that results of other nodes are put into.

A node without such places has a payload like any task. One with them begins with a mark, and is
filled when the node is about to run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from windlass.errors import BadFlow
from windlass.flow.model.condition import Condition
from windlass.flow.model.graph import SKIPPED
from windlass.value.outcome import Skip

FILL = "windlass:fill"
RESULT = "windlass:result"
SKIP = "windlass:skip"
UNFIT = "windlass:unfit"
RUN = "windlass:run"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True)
class Result:
    """What a node will have returned, or the part of it at `path`; an argument of a later node."""

    node: str
    path: tuple[str | int, ...] = ()

    def __getitem__(self, place: str | int) -> Result:
        if not isinstance(place, str | int) or isinstance(place, bool):
            raise BadFlow(f"a result has keys and positions, not {place!r}")
        return Result(self.node, (*self.path, place))

    def __iter__(self) -> Iterator[Result]:
        raise BadFlow(
            f"the result of node {self.node!r} is not known while the flow is drawn, so there is "
            "nothing to go over; have a node add others by context().flow.each(...) when it runs"
        )

    def __str__(self) -> str:
        raise BadFlow(
            f"the result of node {self.node!r} is not known while the flow is drawn, so it cannot "
            "be put into a text; give it to a node as an argument"
        )

    def __format__(self, _how: str) -> str:
        return str(self)


def results_in(value: object) -> set[str]:
    """The nodes whose results are somewhere in `value`."""
    found: set[str] = set()
    replaced(value, lambda result: found.add(result.node))
    return found


def replaced(value: object, by: Callable[[Result], object]) -> object:
    """`value` with each result in it replaced; what has none stays the very same object."""
    match value:
        case Result():
            return by(value)
        case dict():
            if RESULT in value or FILL in value:
                raise BadFlow(f"an argument has the key {RESULT!r} in it, which is reserved")
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
    """A payload that is filled when its node runs.

    `needs` are the ids of the nodes in it; `names` those of the nodes that the condition names.
    """
    head = {"when": when, "needs": sorted(set(needs.values())), "names": dict(names)}
    places = {
        name: replaced(value, lambda result: {RESULT: [needs[result.node], *result.path]})
        for name, value in arguments.items()
    }
    return _encode({FILL: head, **places}).decode()


def is_to_fill(payload: str) -> bool:
    """Whether results are to be put into a payload before its node can run."""
    return payload.startswith(f'{{"{FILL}"')


class Blank(NamedTuple):
    """A payload that was read and is still to be filled."""

    when: str | None
    needs: list[int]
    names: dict[str, int]
    arguments: dict[str, Any]


def read_blank(payload: str) -> Blank:
    """What is to be filled, and with the results of which nodes."""
    arguments = _decode(payload)
    return Blank(**arguments.pop(FILL), arguments=arguments)


class Results:
    """Results by the id of their node; each is decoded once, however many nodes it goes to."""

    def __init__(self, encoded: Mapping[int, str | None]) -> None:
        self._encoded = encoded
        self._decoded: dict[int, Any] = {}

    def get(self, number: int) -> Any:
        """What that node returned; None if it did not succeed."""
        if number not in self._decoded:
            self._decoded[number] = _decode(self._encoded.get(number) or "null")
        return self._decoded[number]


def filled(blank: Blank, results: Results) -> str:
    """The payload with the results in it; of a node that is not to run, why."""
    if blank.when is not None:
        named = {name: results.get(number) for name, number in blank.names.items()}
        if not Condition(blank.when, node="").holds(named):
            return _encode({SKIP: f"{SKIPPED}when {blank.when}"}).decode()
    return _encode({name: _put(value, results) for name, value in blank.arguments.items()}).decode()


def unfit(problem: BaseException) -> str:
    """The payload of a node that could not be filled: it fails, and says why."""
    why = f"{type(problem).__name__}: {problem}"
    return _encode({UNFIT: f"its arguments cannot be filled in: {why}"}).decode()


def check_runs(payload: str) -> None:
    """Raise what a node that was looked at ends by, if it is not to run."""
    if payload.startswith(f'{{"{SKIP}"'):
        raise Skip(_decode(payload)[SKIP])
    if payload.startswith(f'{{"{UNFIT}"'):
        raise BadFlow(_decode(payload)[UNFIT])


def as_drawn(payload: str, names: Mapping[int, str]) -> tuple[str | None, dict[str, object]]:
    """The condition and the arguments of a node as they were drawn; `names` are nodes by id."""
    if not is_to_fill(payload):
        return None, arguments_of(payload)
    blank = read_blank(payload)

    def drawn(value: Any) -> object:
        if isinstance(value, list):
            return [drawn(part) for part in value]
        if not isinstance(value, dict):
            return value
        if RESULT not in value:
            return {key: drawn(part) for key, part in value.items()}
        number, *path = value[RESULT]
        return Result(names.get(number, str(number)), tuple(path))

    return blank.when, {name: drawn(value) for name, value in blank.arguments.items()}


def _put(value: Any, results: Results) -> object:
    if isinstance(value, list):
        return [_put(part, results) for part in value]
    if not isinstance(value, dict):
        return value
    if RESULT not in value:
        return {key: _put(part, results) for key, part in value.items()}
    number, *path = value[RESULT]
    found: Any = results.get(number)
    for place in path:
        try:
            found = found[place]
        except (KeyError, IndexError, TypeError):
            found = None
    return found


class RunHead(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the row of a run carries beside its arguments."""

    keep: int
    template: str | None = None
    version: int | None = None


def with_head(payload: str, head: RunHead) -> str:
    """The payload of a run: what it is to know of itself, then its arguments."""
    rest = payload[1:].lstrip()
    comma = "" if rest.startswith("}") else ","
    return f'{{"{RUN}":{_encode(head).decode()}{comma}{rest}'


def head_of(payload: str) -> RunHead | None:
    """What the row of a run knows of itself; None if it is no run."""
    found = _decode(payload)
    head = found.get(RUN) if isinstance(found, dict) else None
    return None if head is None else msgspec.convert(head, RunHead)


def arguments_of(payload: str) -> dict[str, object]:
    """The arguments of a run or node, as they were given."""
    return {name: value for name, value in _decode(payload).items() if name not in (RUN, FILL)}
