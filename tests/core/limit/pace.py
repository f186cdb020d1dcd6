"""How fast something began: the moments of its starts against the rate it was promised."""

from bisect import bisect_left
from collections.abc import Iterable

SECONDS = 2.0
TOO_MANY = 1.15
# How fast it is, the bench says: on a busy machine starts are late.
TOO_FEW = 0.35


def most_within(starts: Iterable[float], seconds: float = SECONDS) -> int:
    """The most starts in any stretch of so many seconds."""
    ordered = sorted(starts)
    ends = [bisect_left(ordered, begin + seconds) for begin in ordered]
    return max((end - index for index, end in enumerate(ends)), default=0)


def check_never_above(starts: Iterable[float], rate: float) -> None:
    """No two seconds had more starts than the rate allows, with a wide margin."""
    assert most_within(starts) <= rate * SECONDS * TOO_MANY + 2


def check_keeps_up(
    starts: Iterable[float], rate: float, *, begin: float, end: float, least: float = TOO_FEW
) -> None:
    """Between `begin` and `end` it was not much slower than the rate."""
    count = sum(begin <= start < end for start in starts)
    assert count >= rate * (end - begin) * least, f"{count} starts in {end - begin:.2f} s"
