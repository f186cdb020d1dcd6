"""Downstreams that adapt, against HTTP servers whose capacity changes: share, refusals, settling.

Each server has a downstream of its own. 1, 2 and 4 workers call it, by httpx in async handlers and
by urllib in sync ones. `rate` refuses calls above a rate. So does `both`, whose downstream also has
a concurrency. `concurrency` refuses calls above a number at once, and `queue` lets them wait.
The figures come from the servers' own logs. `share` is the part of the capacity that was used and
`refused` that of the calls that were refused, from `SETTLE_SECONDS` after each change to the next
one; `settled` is after how many seconds ten seconds began that kept both goals. Capacities are low,
so that a machine which does other work changes little.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from bench.contract import end_in_order_when_told, running
from bench.scenario.crew import worker
from tests.server.limited import Bears, Call, LimitedServer

WORKERS = (1, 2, 4)
CAPACITIES = (40, 15, 60)
PHASE_SECONDS = 90.0
SETTLE_SECONDS = 45.0
# How long a call takes. With the calls at once, it is the capacity.
CALL_SECONDS = 0.2
LOOK_SECONDS = 10
GOAL_SHARE = 0.9
GOAL_REFUSED = 0.02
SERVERS = ("rate", "both", "concurrency", "queue")

Figures = dict[str, float]


class Phase(NamedTuple):
    """What a server bore from one moment to another."""

    bears: Bears
    begin: float
    end: float


def main() -> None:
    end_in_order_when_told()
    is_quick = "--quick" in sys.argv
    rounds = [int(each) for each in sys.argv[1:] if each.isdigit()] or list(WORKERS)
    found: dict[str, Figures] = {}
    for workers in rounds[1:2] if is_quick else rounds:
        seconds = 70.0 if is_quick else PHASE_SECONDS
        capacities = CAPACITIES[-2:] if is_quick else CAPACITIES
        found |= run(workers, capacities, seconds)
    print(json.dumps({"goal_share": GOAL_SHARE, "goal_refused": GOAL_REFUSED, "phases": found}))


def run(workers: int, capacities: Sequence[int], seconds: float) -> dict[str, Figures]:
    """The figures of each server and capacity, with this many workers."""
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(LimitedServer(bears(name, capacities[0]))) for name in SERVERS
        }
        addresses = (f"{name}={server.url}" for name, server in servers.items())
        os.environ["BENCH_ADAPT"] = ",".join(addresses)
        prepare(int(sum(capacities) * seconds * 1.2))
        phases: list[Phase] = []
        with running([worker("bench.scenario.adapt_app:app")] * workers):
            for capacity in capacities:
                begin = time.monotonic()
                for name, server in servers.items():
                    server.change(bears(name, capacity))
                time.sleep(seconds)
                phases.append(Phase(bears("rate", capacity), begin, time.monotonic()))
            logs = {name: server.log for name, server in servers.items()}
        return {
            f"{name}, {workers} workers, {phase.bears.capacity:.0f}/s": figures(
                logs[name], phase._replace(bears=bears(name, int(phase.bears.capacity)))
            )
            for name in SERVERS
            for phase in phases
        }


def prepare(tasks: int) -> None:
    """An empty database with more tasks than the servers can bear."""
    from bench.scenario.adapt_app import KINDS, app

    app.migrate()
    with app.database.engine.begin() as connection:
        for table in ("windlass_task", "windlass_adapt", "windlass_limit", "windlass_permit"):
            connection.exec_driver_sql(f"delete from {table}")
    for kinds in KINDS.values():
        for kind in kinds:
            kind.enqueue_many([{}] * tasks)


def bears(name: str, capacity: float) -> Bears:
    if name in ("rate", "both"):
        return Bears(per_second=capacity, seconds=CALL_SECONDS)
    at_once = round(capacity * CALL_SECONDS)
    return Bears(at_once=at_once, seconds=CALL_SECONDS, queue=1000 if name == "queue" else 0)


def figures(log: Sequence[Call], phase: Phase) -> Figures:
    share, refused = used(log, phase.bears, phase.begin + SETTLE_SECONDS, phase.end)
    whole = used(log, phase.bears, phase.begin, phase.end)
    return {
        "share": round(share, 3),
        "refused": round(refused, 4),
        "settled": settled(log, phase),
        "refused_in_all": round(whole[1], 4),
    }


def settled(log: Sequence[Call], phase: Phase) -> float:
    """After how many seconds the goals were kept for a while; -1 if never."""
    for second in range(int(phase.end - phase.begin) - LOOK_SECONDS):
        begin = phase.begin + second
        share, refused = used(log, phase.bears, begin, begin + LOOK_SECONDS)
        if share >= GOAL_SHARE and refused <= GOAL_REFUSED:
            return second
    return -1


def used(log: Sequence[Call], bears: Bears, begin: float, end: float) -> tuple[float, float]:
    """The part of the capacity that was used, and that of the calls that were refused.

    Of calls at once, the time counts in which the server was at work on them.
    """
    calls = [call for call in log if begin <= call.at < end]
    served = [call for call in calls if not call.is_refused]
    if bears.at_once is None:
        share = len(served) / (end - begin) / bears.capacity
    else:
        share = sum(call.seconds for call in served) / (end - begin) / bears.at_once
    return share, 1 - len(served) / max(1, len(calls))


if __name__ == "__main__":
    main()
