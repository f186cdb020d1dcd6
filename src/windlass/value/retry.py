"""Retries: how many, and the delay before each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windlass.errors import BadDeclaration, Retry
from windlass.value.duration import Duration, parse_duration

LONGEST_BACKOFF = parse_duration("1h")
JITTER = 0.25
MOST_RETRIES = 1_000_000
RETRY_ASKED_FOR = 25

Retries = int | Mapping[type[BaseException], int]
Backoff = Duration | Mapping[type[BaseException], Duration]


@dataclass(frozen=True)
class RetryPolicy:
    """The number of retries and the first delay, by exception type."""

    retries: Mapping[type[BaseException], int]
    backoff: Mapping[type[BaseException], int]

    def allows(self, error: BaseException, *, tries: int) -> bool:
        """Whether to try again after try number `tries` raised `error`."""
        return tries <= self.most(error)

    def most(self, error: BaseException) -> int:
        """How many retries there are after `error`."""
        return _most_specific(self.retries, type(error), default=0)

    def delay(self, error: BaseException, *, tries: int, random: float) -> int:
        """Microseconds until the next try; `random` in 0..1 spreads them."""
        first = _most_specific(self.backoff, type(error), default=parse_duration("2s"))
        grown: int = first * 2 ** min(tries - 1, 40)
        exact = min(grown, max(first, LONGEST_BACKOFF))
        return round(exact * (1 - JITTER + 2 * JITTER * random))


def retry_policy(kind: str, retries: Retries | None, backoff: Backoff) -> RetryPolicy:
    """The policy of a declaration; an int or a duration applies to every exception.

    Without `retries`, errors are final, but a handler may still raise `Retry`. If a mapping does
    not name `Retry`, its largest number applies.
    """
    by_type: dict[type[BaseException], int]
    if retries is None:
        by_type = {Exception: 0, Retry: RETRY_ASKED_FOR}
    elif isinstance(retries, Mapping):
        numbers = [count for count in retries.values() if isinstance(count, int)]
        by_type = {Retry: max(numbers, default=0), **retries}
    else:
        by_type = {Exception: retries}
    for exception, count in by_type.items():
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_RETRIES:
            raise BadDeclaration(
                f"kind {kind!r}: retries={count!r} is not a number from 0 to {MOST_RETRIES:,}"
            )
        _check_exception(kind, exception)
    delays = backoff if isinstance(backoff, Mapping) else {Exception: backoff}
    for exception in delays:
        _check_exception(kind, exception)
    return RetryPolicy(
        retries=by_type,
        backoff={
            exception: parse_duration(delay, what=f"kind {kind!r}: backoff", zero=True)
            for exception, delay in delays.items()
        },
    )


def _check_exception(kind: str, exception: object) -> None:
    if not (isinstance(exception, type) and issubclass(exception, BaseException)):
        raise BadDeclaration(f"kind {kind!r}: {exception!r} is not an exception type")


def _most_specific(
    table: Mapping[type[BaseException], int], raised: type[BaseException], *, default: int
) -> int:
    for parent in raised.__mro__:
        if parent in table:
            return table[parent]
    return default
