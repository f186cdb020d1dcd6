"""How long the buckets of a killed worker are nobody's, by what its members know each other by.

Three workers with the settings that Windlass comes with. One after another is killed by SIGKILL, at
a random moment of its beat, and replaced. `owned` is the time until all its buckets are owned by
others, `ran` until a task starts that was enqueued into one of them right after the kill; seconds,
median and longest. etcd and ZooKeeper are single servers with the settings that they come with.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import NamedTuple

from bench.contract import Command, end_in_order_when_told, running
from bench.scenario import note
from bench.scenario.crew import look, wait_until_settled, worker
from bench.scenario.latency_app import MEMBERS, app, stamp
from bench.server import BenchEtcd, BenchZooKeeper
from windlass.operate.ring.operate import MemberView
from windlass.value.bucket import bucket_of

WORKERS = 3
KILLS = 9
QUICK = 3
# A worker that has just joined marks none dead before all had time to come back.
STEADY_SECONDS = 6.0
BEAT_SECONDS = 1.0
WAIT_SECONDS = 60.0
LOOK_SECONDS = 0.02

NUMBERS = count(1)


class Times(NamedTuple):
    """Seconds from a kill."""

    owned: float
    ran: float


def main() -> None:
    end_in_order_when_told()
    kills = QUICK if "--quick" in sys.argv else KILLS
    app.migrate()
    figures: dict[str, float] = {"kills": kills}
    for name in ("database", "etcd", "zookeeper"):
        with coordinator(name) as address:
            times = measure(address, kills)
        for what in Times._fields:
            seconds = [getattr(each, what) for each in times]
            figures[f"{name}_{what}_median"] = round(statistics.median(seconds), 2)
            figures[f"{name}_{what}_max"] = round(max(seconds), 2)
    print(json.dumps(figures))


@contextmanager
def coordinator(name: str) -> Iterator[str | None]:
    """The address of a server that tells who is alive; None if the database does."""
    match name:
        case "etcd":
            with BenchEtcd() as server:
                yield server.url
        case "zookeeper":
            with BenchZooKeeper() as server:
                yield server.url
        case _:
            yield None


def measure(address: str | None, kills: int) -> list[Times]:
    environment = {} if address is None else {MEMBERS: address}
    command = worker("bench.scenario.latency_app:app", **environment)
    with ExitStack() as stack:
        crew = [start(stack, command) for _ in range(WORKERS)]
        wait_until_settled(app, WORKERS)
        time.sleep(STEADY_SECONDS)
        times = []
        for _ in range(kills):
            times.append(kill(crew.pop(0)))
            crew.append(start(stack, command))
        return times


def start(stack: ExitStack, command: Command) -> subprocess.Popen[bytes]:
    """A worker that ends with the stack, if it was not killed before."""
    return stack.enter_context(running([command]))[0]


def kill(victim: subprocess.Popen[bytes]) -> Times:
    """Kill one of the workers once all are settled, and wait until others do its work."""
    view = wait_until_settled(app, WORKERS)
    time.sleep(random.uniform(0.0, BEAT_SECONDS))
    owner = next(member for member in view.members if member.pid == victim.pid)
    lost = numbers_of(owner)
    number = next(number for number in NUMBERS if bucket_of(str(number)) in lost)
    began = time.time_ns()
    victim.kill()
    stamp.using(key=str(number)).enqueue(number)
    owned = wait_until_owned(lost, without=owner.id)
    ran = note.wait(number, seconds=WAIT_SECONDS)
    return Times((owned - began) / 1e9, (ran - began) / 1e9)


def wait_until_owned(lost: set[int], *, without: int) -> int:
    """When others were seen to own all of these buckets, in nanoseconds since the epoch."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        others = [member for member in look(app).members if member.id != without]
        if lost <= set().union(*map(numbers_of, others)):
            return time.time_ns()
        time.sleep(LOOK_SECONDS)
    raise SystemExit(f"nobody took over the buckets of {without} within {WAIT_SECONDS:.0f} s")


def numbers_of(member: MemberView) -> set[int]:
    return {number for run in member.buckets for number in run}


if __name__ == "__main__":
    main()
