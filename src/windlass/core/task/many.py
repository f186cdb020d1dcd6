"""Lists: a kind with `many=` has a handler that takes a list of items, one for each task."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, TypedDict, Union, cast, get_args, get_origin

from windlass.errors import BadDeclaration
from windlass.value.duration import Duration, parse_duration
from windlass.value.payload import Arguments

MOST_AT_ONCE = 10_000
LISTS = (list, Sequence, Collection, Iterable)


class ManyOptions(TypedDict, total=False):
    """The options of kinds whose handlers may take lists."""

    many: int | None
    wait: Duration | None


# Why other declarations refuse these options.
NO_MANY = {
    "many": "a cron has one row, so its function never has company; leave it out",
    "wait": "a cron has one row, so its function never has company; leave it out",
}
NO_WAIT = {"wait": "a sweep reads whole pages: many=True gives its function up to `batch` rows"}


@dataclass(frozen=True)
class ManyTerms:
    """How many items a call gets at most, and how long the first waits for others."""

    most: int
    # In microseconds; 0: not at all.
    wait: int


def many_terms(name: str, given: Any, *, max_lost: int) -> ManyTerms | None:
    """What a declaration says about lists; an error names the option that is wrong."""
    what, many, wait = f"kind {name!r}", given.many, given.wait
    if many is None:
        if wait is not None:
            raise BadDeclaration(
                f"{what}: wait={wait!r} is how long a list waits for company; give many=, too"
            )
        return None
    if isinstance(many, bool) or not isinstance(many, int) or not 1 <= many <= MOST_AT_ONCE:
        raise BadDeclaration(f"{what}: many={many!r} is not a number from 1 to {MOST_AT_ONCE:,}")
    if given.logs:
        raise BadDeclaration(
            f"{what}: many= and logs= cannot be combined: nobody knows to which item of a list a "
            "record belongs; leave one of them out"
        )
    if max_lost == 1:
        raise BadDeclaration(
            f"{what}: with max_lost=1 one item that kills its worker would fail all items of its "
            "list; give max_lost=2 or more"
        )
    waiting = 0 if wait is None else parse_duration(wait, what=f"{what}: wait", zero=True)
    return ManyTerms(many, waiting)


def item_function(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the signature of one item: the parameter, and what is answered for it."""
    arguments = Arguments(name, function)
    parameter = _only_parameter(name, arguments.signature)
    hints = typing.get_type_hints(function, include_extras=True)

    def item(*_given: object) -> None:
        """Never called."""

    annotation = _item_type(name, arguments.types.get(parameter.name, Any))
    item.__annotations__ = {
        parameter.name: annotation,
        "return": answer_type(hints.get("return", Any)),
    }
    taken = parameter.replace(
        kind=parameter.POSITIONAL_OR_KEYWORD, annotation=annotation, default=parameter.empty
    )
    cast(Any, item).__signature__ = inspect.Signature([taken])
    return item


def _only_parameter(name: str, signature: inspect.Signature) -> inspect.Parameter:
    parameters = list(signature.parameters.values())
    positional = [
        each
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    needed = [each for each in parameters if each.default is each.empty]
    if not positional or needed not in ([], positional[:1]):
        raise BadDeclaration(
            f"kind {name!r}: with many= its handler takes one argument, the list of items; write "
            f"def {name}(items: list[Item]), where an Item with several values is a dataclass, a "
            f"TypedDict or a Struct; its parameters are {signature}"
        )
    return positional[0]


def _item_type(name: str, annotation: Any) -> Any:
    """The type of one item, by the annotation of the list."""
    if annotation in (Any, *LISTS):
        return Any
    if get_origin(annotation) not in LISTS or len(get_args(annotation)) != 1:
        raise BadDeclaration(
            f"kind {name!r}: with many= its handler gets a list, but its parameter is annotated "
            f"{annotation!r}; write list[...]"
        )
    return get_args(annotation)[0]


def answer_type(annotation: Any) -> Any:
    """The type of one result, by what a handler of lists is annotated to return."""
    found = [each for each in _members(annotation) if each is not NoneType]
    if len(found) != 1 or get_origin(found[0]) not in LISTS:
        return Any
    kept = [
        each
        for each in _members(get_args(found[0])[0])
        if not (isinstance(each, type) and issubclass(each, BaseException))
    ]
    return Union[tuple(kept)] if kept else Any  # noqa: UP007


def _members(annotation: Any) -> tuple[Any, ...]:
    is_union = get_origin(annotation) in (Union, UnionType)
    return get_args(annotation) if is_union else (annotation,)
