"""The workers of a scenario: they join, settle on the ring, and get their work at one moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from bench.contract import Command
from windlass import App
from windlass.operate.ring import operate as ring
from windlass.operate.ring.operate import RingView

SETTLE_SECONDS = 120.0
LOOK_SECONDS = 0.05
# An enqueue that is slower than this is not to be measured beside.
ENQUEUED_PER_SECOND = 8_000
HEAD_START = 1.5


class NotSettled(Exception):
    """The workers did not divide the ring in time; the message says how far they came."""


def worker(app: str, *options: str, **environment: str) -> Command:
    """A worker of `app`, with the options of `windlass worker` and variables of its own."""
    return Command([sys.executable, "-m", "windlass", "worker", app, *options], environment)


def wait_until_settled(app: App, members: int) -> RingView:
    """The ring once it has that many `members` and each owns its share."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        view = look(app)
        if len(view.members) == members and not view.moving:
            return view
        if time.monotonic() > deadline:
            raise NotSettled(
                f"{len(view.members)} of {members} workers are there after {SETTLE_SECONDS:.0f} s, "
                f"and {view.moving} buckets are not where they belong"
            )
        time.sleep(LOOK_SECONDS)


def look(app: App) -> RingView:
    return ring.look(app.database, app.clock)


def enqueue_ahead(tasks: int, enqueue: Callable[[str], Sequence[object]]) -> None:
    """Enqueue with a delay that leaves the time for it, so that all workers begin together.

    `enqueue` is given the delay. The interpreters have long started by then, and nobody works
    beside them.
    """
    seconds = tasks / ENQUEUED_PER_SECOND + HEAD_START
    begin = time.monotonic()
    enqueue(f"{int(seconds * 1000)}ms")
    taken = time.monotonic() - begin
    if taken > seconds:
        raise SystemExit(
            f"enqueuing took {taken:.1f} s; the first of it was due after {seconds:.1f} s"
        )
