"""Overload: what another system says when it can bear no more, and when to call it again.

`Overloaded` says it in words. HTTP says it by status 429 or 503, often with `Retry-After`. The
errors of httpx, requests, aiohttp and urllib are known by their shape, so none is imported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from windlass.value.duration import Duration, parse_duration

# How long a row waits if nothing says how long: half of it more or less, by chance.
USUAL_DELAY = parse_duration("1s")
# What another system asks for over HTTP is heeded up to here.
LONGEST_DELAY = timedelta(hours=1)
STATUSES = (429, 503)
# The first part of the module and the name of errors that carry an HTTP response.
ERRORS = {
    ("httpx", "HTTPStatusError"),
    ("requests", "HTTPError"),
    ("aiohttp", "ClientResponseError"),
    ("urllib", "HTTPError"),
}


class HttpOverload(NamedTuple):
    """An HTTP answer that says to call later; `retry_after` is None if it does not say when."""

    status: int
    retry_after: timedelta | None


def delay_after(retry_after: Duration | None, *, random: float) -> int:
    """How many microseconds a row waits; `random` is from 0 to 1."""
    if retry_after is not None:
        return parse_duration(retry_after, what="Overloaded: retry_after", zero=True)
    return round(USUAL_DELAY * (0.5 + random))


def overload_in(error: BaseException) -> HttpOverload | None:
    """What an error of an HTTP client says about overload; None if it says nothing."""
    classes = {(each.__module__.split(".")[0], each.__name__) for each in type(error).__mro__}
    if not classes & ERRORS:
        return None
    response: Any = getattr(error, "response", None)
    status = _status(error) if response is None else _status(response)
    if status not in STATUSES:
        return None
    headers = getattr(error if response is None else response, "headers", None)
    return HttpOverload(status, retry_after_in(headers, now=time.time()))


def retry_after_in(headers: object, *, now: float) -> timedelta | None:
    """The time that a `Retry-After` header names, in seconds or as a date; None without one."""
    text = _header(headers)
    if text is None:
        return None
    try:
        seconds = float(text) if text.isdecimal() else _until(text, now)
    except (ValueError, TypeError, OverflowError):
        return None
    if seconds <= 0:
        return None
    return timedelta(seconds=min(seconds, LONGEST_DELAY.total_seconds()))


def _status(answer: object) -> int | None:
    for name in ("status_code", "status", "code"):
        found = getattr(answer, name, None)
        if isinstance(found, int):
            return found
    return None


def _header(headers: object) -> str | None:
    # The headers of every client compare names without case, but a plain mapping does not.
    items: Callable[[], Iterable[tuple[object, object]]] = getattr(headers, "items", tuple)
    for name, value in items():
        if str(name).lower() == "retry-after":
            return str(value).strip()
    return None


def _until(text: str, now: float) -> float:
    moment = parsedate_to_datetime(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp() - now
