"""The models of the API, made from view types, and the JSON that requests may contain.

Names are those of Python. Moments are ISO 8601 in UTC, durations are seconds. Values of users, such
as payloads and keys, are text, because a browser cannot hold every number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from functools import cache, partial, reduce
from operator import or_
from types import UnionType
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    create_model,
)

from windlass.clock import to_datetime
from windlass.source.contract import encode_key, shown
from windlass.value.task import LONGEST_KEY, is_storable
from windlass.view.field import (
    CODE,
    JSON,
    JSON_TEXT,
    KEY,
    MOMENT,
    STORED_KEY,
    TEXT,
    below,
    view_fields,
)
from windlass.view.listing import Listing
from windlass.view.said import SPOKEN, Said, as_wire

DEEPEST = 40
LARGEST_NUMBER = 2**63
MOST_ARGUMENTS = 200


def shown_as(example: dict[str, Any]) -> ConfigDict:
    """The settings of a request's body that the OpenAPI document shows with this example."""
    return ConfigDict(json_schema_extra={"examples": [example]})


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
# Any value of JSON.
JsonValue = Annotated[Any, AfterValidator(_checked)]
JsonList = Annotated[list[Any], Field(max_length=MOST_ARGUMENTS), AfterValidator(_checked)]


T = TypeVar("T")


class View(BaseModel):
    """An answer; it can be made from an object with the same attributes."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class RequestBody(BaseModel):
    """The body of a request; other fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Arc(View):
    """Buckets from `begin` up to and without `end`."""

    begin: int
    end: int


def _arc(given: object) -> object:
    return Arc(begin=given.start, end=given.stop) if isinstance(given, range) else given


def _moment(given: object) -> object:
    if isinstance(given, int):
        return to_datetime(given)
    return given.astimezone(UTC) if isinstance(given, datetime) else given


def _seconds(given: object) -> object:
    return given.total_seconds() if isinstance(given, timedelta) else given


Moment = Annotated[datetime, BeforeValidator(_moment)]
Seconds = Annotated[float, BeforeValidator(_seconds)]
Names = tuple[str, ...]
# A moment in a request.
When = AwareDatetime
# A key of a source, for people.
KeyText = Annotated[str, BeforeValidator(shown)]

# Anything, as text.
Text = Annotated[str, BeforeValidator(str)]


class SaidView(View):
    """A sentence: in English, and as a code with values, by which it is said in other languages."""

    text: str
    code: str
    values: dict[str, Any]


BY_MARK = {
    MOMENT: Moment,
    KEY: KeyText,
    STORED_KEY: Annotated[str, BeforeValidator(encode_key)],
    JSON: Annotated[str, BeforeValidator(json_text)],
    JSON_TEXT: str,
    TEXT: Text,
    SPOKEN: Annotated[SaidView, BeforeValidator(as_wire)],
}


BY_TYPE = {
    Said: Annotated[SaidView, BeforeValidator(as_wire)],
    datetime: Moment,
    timedelta: Seconds,
    range: Annotated[Arc, BeforeValidator(_arc)],
}

Number = Annotated[int, Field(ge=1, le=2**63 - 1)]

# Text that every database can keep.
STORABLE = r"^[^\x00]*$"
Reason = Annotated[str, StringConstraints(max_length=1_000, pattern=STORABLE)]
Code = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_KEY, pattern=STORABLE)]


class Page(View, Generic[T]):
    """Part of a list. `next` is the cursor of what follows; null at the end.

    `missing` names the shards that could not be asked: what they have is not in the list.
    """

    items: list[T]
    next: str | None = None
    missing: Names = ()


class ActionResult(View):
    """What an action did, in words, and how many rows it changed."""

    message: str
    changed: int = 1


def answer(view: Any, *, name: str | None = None, without: tuple[str, ...] = ()) -> Any:
    """The model by which the API shows `view`: a view type, a list of them, a `Listing`.

    A route names it as its `response_model` and returns the view itself. The answer leaves out the
    fields `without`; "members.idle" is a field of a nested view. Give a `name` where one view type
    has two answers.
    """
    origin = get_origin(view)
    if isinstance(origin, type) and issubclass(origin, Listing):
        items = answer(get_args(view)[0], name=name, without=without)
        return _page(origin, items)
    if isinstance(view, type) and view_fields(view):
        return _model(view, name or view.__name__, frozenset(without))
    return _shown(view, partial(answer, name=name, without=without))


@cache
def _page(listing: type[Listing[Any]], items: Any) -> Any:
    page: Any = Page.__class_getitem__(items)
    if listing is Listing:
        return page
    more: dict[str, Any] = {
        name: (_shown(hint), ...) for name, hint in get_type_hints(listing).items()
    }
    return create_model(
        f"{listing.__name__}_{items.__name__}", __base__=page, __doc__=listing.__doc__, **more
    )


@cache
def _model(view: type, name: str, without: frozenset[str]) -> Any:
    fields: dict[str, Any] = {}
    for each, hint in view_fields(view).items():
        if each not in without:
            inner = below(each, without)
            nested = partial(_nested, outer=name, without=inner) if inner else answer
            fields[each] = (_shown(hint, nested), ...)
    return create_model(
        name, __base__=View, __module__=view.__module__, __doc__=view.__doc__, **fields
    )


def _nested(view: type, *, outer: str, without: tuple[str, ...]) -> Any:
    return answer(view, name=f"{outer}{view.__name__}", without=without)


def _shown(hint: Any, nested: Callable[[Any], Any] = answer) -> Any:
    """The type by which the API shows what a view annotates with `hint`."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        marks = [BY_MARK[mark] for mark in parts[1:] if mark in BY_MARK]
        return marks[0] if marks else _shown(parts[0], nested) if CODE in parts else hint
    if origin in (Union, UnionType):
        return reduce(or_, (_shown(part, nested) for part in parts))
    if origin is not None and origin is not Literal:
        return origin[tuple(part if part is ... else _shown(part, nested) for part in parts)]
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        schema = {"type": "string", "enum": [str(each) for each in hint]}
        return Annotated[str, BeforeValidator(str), WithJsonSchema(schema)]
    if isinstance(hint, type) and view_fields(hint):
        return nested(hint)
    return BY_TYPE.get(hint, hint)
