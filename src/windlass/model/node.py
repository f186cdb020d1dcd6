"""The payload of a node: its arguments, with the places that results of other nodes are put into.

A node without such places has a payload like any task. One with them begins with a mark, and is
filled when the node is about to run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass.errors import BadFlow
from windlass.model.condition import Condition
from windlass.model.flow import SKIPPED

FILL = "windlass:fill"
RESULT = "windlass:result"
SKIP = "windlass:skip"
RUN = "windlass:run"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Skip(Exception):
    """The condition of a node does not hold: it is not to run."""


@dataclass(frozen=True)
class Result:
    """What a node will have returned, or the part of it at `path`; an argument of a later node."""

    node: str
    path: tuple[str | int, ...] = ()

    def __getitem__(self, place: str | int) -> Result:
        if not isinstance(place, str | int) or isinstance(place, bool):
            raise BadFlow(f"a result has keys and positions, not {place!r}")
        return Result(self.node, (*self.path, place))


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
) -> str:
    """A payload that is filled when its node runs; `needs` are the ids of the nodes in it."""
    head: dict[str, object] = {FILL: {"when": when, "needs": dict(needs)}}
    places = {
        name: replaced(value, lambda result: {RESULT: [needs[result.node], *result.path]})
        for name, value in arguments.items()
    }
    return _encode({**head, **places}).decode()


def is_to_fill(payload: str) -> bool:
    """Whether results are to be put into a payload before its node can run."""
    return payload.startswith(f'{{"{FILL}"')


def needed(payload: str) -> set[int]:
    """The ids of the nodes whose results a payload needs."""
    return set(_decode(payload)[FILL]["needs"].values())


def filled(payload: str, results: Mapping[int, str | None]) -> str:
    """The payload with the results in it, JSON by id; of a node that is not to run, why."""
    arguments = _decode(payload)
    head = arguments.pop(FILL)
    values = {
        number: None if results.get(number) is None else _decode(results[number] or "null")
        for number in head["needs"].values()
    }
    if head["when"] is not None:
        named = {name: values[number] for name, number in head["needs"].items()}
        if not Condition(head["when"], node="").holds(named):
            return _encode({SKIP: f"{SKIPPED}when {head['when']}"}).decode()
    return _encode({name: _put(value, values) for name, value in arguments.items()}).decode()


def check_runs(payload: str) -> None:
    """Raise Skip if the condition of a node, which was looked at, did not hold."""
    if payload.startswith(f'{{"{SKIP}"'):
        raise Skip(_decode(payload)[SKIP])


def _put(value: Any, results: Mapping[int, object]) -> object:
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
