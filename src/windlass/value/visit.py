"""Visits that are asked for without waiting, and how fresh what was done is."""

from __future__ import annotations

from enum import StrEnum

from windlass.clock import SECOND


class VisitSoon(StrEnum):
    """What became of a visit that was asked for without waiting."""

    # A worker runs it soon.
    ASKED = "asked"
    # It was asked for before, or runs.
    PENDING = "pending"
    # It was done at most `fresh` ago.
    FRESH = "fresh"
    # Too many visits wait; ask again later.
    FULL = "full"


def is_fresh(at: int | None, fresh: int, now: int) -> bool:
    """Whether what was done `at` is at most `fresh` ago; all in microseconds."""
    # If it is in the future, the clock stepped back since, and its age is not known.
    return at is not None and now - fresh <= at <= now + SECOND
