"""How a sweep is declared, and which numbers and orders are valid."""

from __future__ import annotations

from typing import TypeGuard

from windlass.core.task.kind import optional_duration, positive
from windlass.core.task.option import (
    CommonOptions,
    IsolateOptions,
    PromiseOptions,
    RetryOptions,
    SpeedOptions,
)
from windlass.errors import BadDeclaration, BadInput
from windlass.source.contract import SweepSource
from windlass.source.given import GivenAtStart
from windlass.sweep.model import RangeOrder, SweepTerms
from windlass.value.duration import Duration
from windlass.value.payload import Arguments

MOST_RANGES = 4_096


class SweepOptions(
    CommonOptions, PromiseOptions, RetryOptions, SpeedOptions, IsolateOptions, total=False
):
    """The options of a sweep, beside how it cuts its source."""


def make_sweep(
    source: object,
    *,
    ranges: int,
    redo: Duration | None,
    batch: int,
    order: str,
    many: bool,
    key_only: bool,
    steal: bool,
    auto: bool,
) -> SweepTerms:
    """How a source is swept, or an error that names the option that is wrong."""
    made = GivenAtStart() if source is None else check_source(source)
    if source is None and redo is not None:
        raise BadDeclaration(
            f"sweep: redo={redo!r} begins rounds by itself, and without a source each start gives "
            "its own; give a source, or leave redo out"
        )
    if not _is_ranges(ranges):
        raise BadDeclaration(f"sweep: ranges={ranges!r} is not a number from 1 to {MOST_RANGES}")
    if redo is not None and not auto:
        raise BadDeclaration(
            f"sweep: redo={redo!r} begins rounds by itself, and auto=False begins none; "
            "leave one of them out"
        )
    return SweepTerms(
        source=made,
        ranges=ranges,
        redo=optional_duration(redo, "sweep: redo", zero=True),
        batch=positive(batch, "sweep: batch") or 1,
        order=check_order(order),
        many=bool(many),
        key_only=bool(key_only),
        steal=bool(steal),
        auto=bool(auto) and source is not None,
    )


def check_source(source: object) -> SweepSource:
    """`source`, if it can be swept."""
    if not isinstance(source, SweepSource):
        raise BadDeclaration(
            f"sweep: {source!r} is not a source; give a Table, Keys, Lines, Csv, Pages or "
            "SearchIndex, or an object that has bounds, middle and read"
        )
    return source


def check_takes_a_row(name: str, arguments: Arguments) -> None:
    """Refuse a handler that cannot be called with a row."""
    try:
        arguments.signature.bind(object())
    except TypeError as problem:
        raise BadDeclaration(
            f"sweep {name!r}: its handler is called with one argument, a row of the source; "
            f"write def {name}(row)"
        ) from problem


def check_ranges(sweep: str, count: object) -> int:
    """`count`, if it is a valid number of ranges."""
    if not _is_ranges(count):
        raise BadInput(
            f"sweep {sweep!r}: cannot split into {count!r} ranges; "
            f"give a number from 1 to {MOST_RANGES}"
        )
    return count


def _is_ranges(count: object) -> TypeGuard[int]:
    if isinstance(count, bool) or not isinstance(count, int):
        return False
    return 1 <= count <= MOST_RANGES


def check_limit(limit: object) -> int:
    """`limit`, if it is a number from 1 on."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise BadInput(f"limit={limit!r} is not a number from 1 on")
    return limit


def check_order(order: object) -> RangeOrder:
    """The order that `order` names."""
    try:
        return RangeOrder(order)
    except ValueError:
        names = ", ".join(repr(each.value) for each in RangeOrder)
        raise BadDeclaration(f"sweep: order={order!r} is not one of {names}") from None
