"""What a view type says of its fields, so that the API and `--json` are made from it.

A view is a frozen dataclass, a struct or a named tuple: what operators see of one noun. Its fields
are typed once, in the view. `windlass.web.view.answer` makes the API's model from it, and
`windlass.cli.output.plain` the value that `--json` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import msgspec

F = TypeVar("F", bound=Callable[..., Any])

MOMENT = "moment"
KEY = "key"
STORED_KEY = "stored key"
JSON = "json"
JSON_TEXT = "json text"
TEXT = "text"
CODE = "code"

# `--json` shows the number of an enum marked as CODE, and otherwise its name, as the API does.
# Microseconds since the epoch; shown as ISO 8601 in UTC.
Moment = Annotated[int, MOMENT]
# A key of a source. The API shows the text that it is stored as, and takes that text.
StoredKey = Annotated[Any, STORED_KEY]
# A value of JSON. `--json` shows it as it is, the API as text: browsers cannot hold every number.
Json = Annotated[Any, JSON]
# The text of such a value. `--json` shows the value, the API the text.
JsonText = Annotated[str, JSON_TEXT]


def exposed(method: F) -> F:
    """Mark a property as a field of its view; write `@property` above it."""
    vars(method)["is_exposed"] = True
    return method


@cache
def view_fields(view: type) -> dict[str, Any]:
    """The public fields of a view type and their annotations; empty if it is not a view."""
    names = _names(view)
    if not names:
        return {}
    hints = get_type_hints(view, include_extras=True)
    found = {name: hints[name] for name in names if not name.startswith("_")}
    for base in reversed(view.__mro__):
        for name, member in vars(base).items():
            if isinstance(member, property) and hasattr(member.fget, "is_exposed"):
                found[name] = get_type_hints(member.fget, include_extras=True)["return"]
    return found


def below(field: str, names: Collection[str]) -> tuple[str, ...]:
    """Of dotted names, those that are below `field`, without it."""
    return tuple(each.removeprefix(f"{field}.") for each in names if each.startswith(f"{field}."))


def is_marked(hint: Any, mark: str) -> bool:
    """Whether an annotation, or a part of a union, has this mark."""
    return any(mark in getattr(part, "__metadata__", ()) for part in (hint, *get_args(hint)))


def _names(view: type) -> tuple[str, ...]:
    if issubclass(view, msgspec.Struct):
        return view.__struct_fields__
    if is_dataclass(view):
        return tuple(each.name for each in fields(view))
    return getattr(view, "_fields", ()) if issubclass(view, tuple) else ()
