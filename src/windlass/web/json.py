"""JSON in requests: what every database can store, and not too deep."""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec
from pydantic import AfterValidator, Field

from windlass.value.task import is_storable

DEEPEST = 40
LARGEST_NUMBER = 2**63
MOST_ARGUMENTS = 200


def json_text(value: object) -> str:
    """A value as JSON."""
    return msgspec.json.encode(value).decode()


def _checked(value: Any) -> Any:
    _check(value, DEEPEST)
    return value


def _check(value: Any, depth: int) -> None:
    if depth == 0:
        raise ValueError(f"it is more than {DEEPEST} levels deep")
    match value:
        case str() if not is_storable(value):
            raise ValueError("it has a character in it that databases cannot store")
        case float() if not math.isfinite(value):
            raise ValueError(f"{value} is not a number of JSON")
        case int() if not -LARGEST_NUMBER <= value < LARGEST_NUMBER:
            raise ValueError("it has a number in it that is too large")
        case dict():
            for name, part in value.items():
                _check(name, depth)
                _check(part, depth - 1)
        case list():
            for part in value:
                _check(part, depth - 1)


JsonObject = Annotated[dict[str, Any], Field(max_length=MOST_ARGUMENTS), AfterValidator(_checked)]
JsonList = Annotated[list[Any], Field(max_length=MOST_ARGUMENTS), AfterValidator(_checked)]
