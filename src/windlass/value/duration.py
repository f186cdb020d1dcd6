"""Durations: "10d", "1h30m", "250ms" or a timedelta, as whole microseconds."""

from __future__ import annotations

import re
from datetime import timedelta

from windlass.errors import BadDuration, BadInput

UNITS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
LONGEST = 100 * 365 * UNITS["d"]

_PART = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d|w)")
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:us|ms|s|m|h|d|w))+")

Duration = str | timedelta


def parse_duration(given: Duration, *, what: str = "duration", zero: bool = False) -> int:
    """Microseconds in `given`. `what` names the option in the error; `zero` allows zero."""
    if isinstance(given, timedelta):
        microseconds = given // timedelta(microseconds=1)
    elif isinstance(given, str):
        text = given.strip().replace(" ", "")
        if not _WHOLE.fullmatch(text):
            raise BadDuration(
                f'{what}: cannot read {given!r}; write it as "250ms", "30s", "5m", "1h30m" or "10d"'
            )
        exact = sum(float(number) * UNITS[unit] for number, unit in _PART.findall(text))
        microseconds = round(min(exact, LONGEST + 1))
    else:
        raise BadDuration(
            f"{what}: {given!r} is {_article(type(given).__name__)}; "
            'give a string such as "30s" or a timedelta'
        )
    if microseconds < 0 or (microseconds == 0 and not zero):
        raise BadDuration(f"{what}: {given!r} is too short; give a positive duration")
    if microseconds > LONGEST:
        raise BadDuration(f"{what}: {given!r} is longer than 100 years")
    return microseconds


def seconds_of(timeout: Duration | float) -> float:
    """A time-out in seconds, given as a number or as a duration."""
    if isinstance(timeout, int | float):
        if timeout < 0:
            raise BadInput(f"timeout={timeout!r} is negative")
        return float(timeout)
    return parse_duration(timeout, what="timeout", zero=True) / UNITS["s"]


def format_duration(microseconds: float) -> str:
    """A duration for people, in its two largest units."""
    rest = round(microseconds)
    if rest < 1_000:
        return f"{rest}us"
    if rest < 10_000_000:
        milliseconds = rest / 1_000
        return f"{milliseconds:.0f}ms" if milliseconds < 1_000 else f"{rest / 1e6:.1f}s"
    parts = []
    for unit in ("d", "h", "m", "s"):
        count, rest = divmod(rest, UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


def _article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
