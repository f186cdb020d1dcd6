"""Run the systems in turn, round after round, and keep what each trial took."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
import pymysql

from bench import command, install, tally
from bench.raw.session import Session
from bench.server import STORES, Store
from bench.system import System
from tests.server import ServerMissing

ONE_BY_ONE = 5000
COUNTS_DEADLOCKS = ("postgresql", "mariadb", "mysql")


@dataclass(frozen=True)
class Trial:
    """One system, measured once: tasks per second, or why there is no figure."""

    one: float | None = None
    bulk: float | None = None
    drain: float | None = None
    tasks: int = 0
    deadlocks: int | None = None
    """What the server counted during the drain, where it does."""
    failure: str | None = None


@dataclass
class Record:
    """All trials of one system."""

    system: System
    trials: list[Trial] = field(default_factory=list)

    @property
    def failure(self) -> str | None:
        return next((trial.failure for trial in self.trials if trial.failure), None)

    def rates(self, measure: str) -> list[float]:
        found = (getattr(trial, measure) for trial in self.trials)
        return [rate for rate in found if rate is not None]

    @property
    def deadlocks(self) -> int | None:
        """Of all trials together."""
        counts = [trial.deadlocks for trial in self.trials if trial.deadlocks is not None]
        return sum(counts) if counts else None

    def median(self, measure: str) -> float | None:
        rates = self.rates(measure)
        return statistics.median(rates) if rates else None


# One system or server that fails must not cost the figures of all others.
FAILURES = (
    command.CommandFailed,
    install.NotInstalled,
    ServerMissing,
    psycopg.Error,
    pymysql.Error,
    subprocess.TimeoutExpired,
    RuntimeError,
    OSError,
)


class Stores:
    """The servers of this run, each started when the first system needs it."""

    def __init__(self) -> None:
        self._running: dict[str, Store] = {}

    def get(self, name: str) -> Store:
        if name not in self._running:
            if name == "redis":
                install.redis()
            store = STORES[name]()
            store.start()
            self._running[name] = store
        return self._running[name]

    def versions(self) -> dict[str, str]:
        return {name: store.version() for name, store in self._running.items()}

    def close(self) -> None:
        for store in self._running.values():
            store.close()


@contextmanager
def stores() -> Iterator[Stores]:
    running = Stores()
    try:
        yield running
    finally:
        running.close()


def measure(
    systems: Sequence[System],
    running: Stores,
    *,
    tasks: int,
    rounds: int,
    tell: Callable[[str], None],
) -> list[Record]:
    """Measure every system once a round, so that a slow minute of the machine hits them all."""
    records = [Record(system) for system in systems]
    for number in range(rounds):
        for record in _rotated(records, number):
            tell(f"round {number + 1} of {rounds}: {record.system.name}")
            record.trials.append(attempt(record.system, running, tasks))
    return records


def attempt(system: System, running: Stores, tasks: int) -> Trial:
    try:
        return _trial(system, running, tasks)
    except FAILURES as failure:
        return Trial(failure=str(failure))


def _trial(system: System, running: Stores, tasks: int) -> Trial:
    store = running.get(system.store)
    database = f"trial_{os.urandom(4).hex()}"
    bulk = max(int(tasks * system.share), 100)
    one = min(bulk, ONE_BY_ONE) if system.has_bulk else bulk
    with tempfile.TemporaryDirectory(prefix="windlass-tally-") as folder:
        address = store.create_database(database)
        call = _Caller(system, address, folder)
        try:
            call("prepare")
            one_seconds = call("enqueue-one", one)
            bulk_seconds = call("enqueue-bulk", bulk) if system.has_bulk else None
            store.settle(database)
            total = one + bulk if system.has_bulk else one
            before = _deadlocks(system, address)
            drain_seconds = call("drain", total)
            after = _deadlocks(system, address)
        finally:
            store.drop_database(database)
    return Trial(
        one=one / one_seconds,
        bulk=bulk / bulk_seconds if bulk_seconds else None,
        drain=total / drain_seconds,
        tasks=total,
        deadlocks=None if before is None or after is None else after - before,
    )


def _deadlocks(system: System, address: str) -> int | None:
    if system.store not in COUNTS_DEADLOCKS:
        return None
    session = Session(address)
    try:
        return session.deadlocks()
    finally:
        session.close()


class _Caller:
    """Calls the verbs of one system on one database."""

    def __init__(self, system: System, address: str, folder: str) -> None:
        self._command = system.command()
        self._environment = {"BENCH_URL": address, tally.FOLDER_VARIABLE: folder}
        self._environment |= system.environment
        if system.peer:
            self._environment["BENCH_HOME"] = str(install.home(system.peer))

    def __call__(self, verb: str, *numbers: int) -> float:
        """The seconds of a verb."""
        output = command.run([*self._command, verb, *map(str, numbers)], self._environment)
        answer = json.loads(output.splitlines()[-1])
        if verb == "drain" and answer["ran"] < 0.999 * numbers[0]:
            raise command.CommandFailed(f"only {answer['ran']} of {numbers[0]} tasks ran")
        return float(answer["seconds"])


def _rotated(records: list[Record], number: int) -> list[Record]:
    """The same ring of systems, begun elsewhere each round."""
    begin = number * 3 % max(len(records), 1)
    return records[begin:] + records[:begin]
