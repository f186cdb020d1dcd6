"""The rules about promises: which of them is a problem, and how that is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from windlass.clock import SECOND, from_datetime
from windlass.core.alert.model import Trouble
from windlass.watch.declare import Watching
from windlass.watch.promise.model.promise import Promise

# A kind that is paused, or has no worker, may soon run again: that is a problem only when less
# than this part of the promised time is left.
NEAR = 0.25


def troubled_promises(
    promises: Iterable[Promise], watching: Watching, *, now: int
) -> Iterator[Trouble]:
    """Promises that are broken, or will break. A broken promise of a flow is a late run."""
    for promise in promises:
        if promise.state == "broken":
            what = "flow late" if promise.face == "flow" else "promise broken"
            yield Trouble(what, promise.kind, told(promise))
        elif promise.state == "at risk" and _is_near(promise, watching, now=now):
            yield Trouble("promise at risk", promise.kind, told(promise))


def told(promise: Promise) -> str:
    """A promise in one sentence."""
    cure = "" if promise.cure is None else f"; cure: {promise.cure}"
    text = f"promise of {promise.kind!r} ({promise.promise}): {promise.forecast}"
    return f"{text}; {promise.standing}{cure}"


def _is_near(promise: Promise, watching: Watching, *, now: int) -> bool:
    if promise.breaks_at is None or not promise.is_standing_still:
        return True
    part = watching.limit("promise at risk", promise.kind, NEAR)
    left = (from_datetime(promise.breaks_at) - now) / SECOND
    return left <= part * promise.within.total_seconds()
