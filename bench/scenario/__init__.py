"""Measures of Windlass alone, where there is no peer to set beside it.

Each module here is a command like a system's: it finds its database in
`BENCH_URL`, the process of its server in `BENCH_SERVER`, an empty folder in
`BENCH_TALLY`, takes `--quick` as its one option and prints one line of JSON with its figures.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass

from bench import command, tally
from bench.server import Store

SERVER = "BENCH_SERVER"


@dataclass(frozen=True)
class Scenario:
    """A named measure, and the stores that it makes sense on."""

    name: str
    module: str
    stores: tuple[str, ...]


SCENARIOS = (
    Scenario("latency", "bench.scenario.latency", ("postgresql", "mariadb", "mysql", "sqlite")),
    Scenario("claim-cost", "bench.scenario.claim_cost", ("postgresql",)),
    Scenario("rolling", "bench.scenario.rolling", ("postgresql", "mariadb", "mysql", "sqlite")),
    Scenario("sweep", "bench.scenario.sweep", ("postgresql", "mariadb", "mysql", "sqlite")),
    Scenario("follow", "bench.scenario.follow", ("postgresql", "mariadb", "mysql", "sqlite")),
    Scenario("rate", "bench.scenario.rate", ("postgresql", "mariadb", "mysql", "sqlite")),
    Scenario("lane", "bench.scenario.lane", ("postgresql", "mariadb", "mysql", "sqlite")),
    Scenario("adapt", "bench.scenario.adapt", ("postgresql", "sqlite")),
    Scenario("outbox", "bench.scenario.outbox", ("postgresql",)),
    Scenario("ring", "bench.scenario.ring", ("sqlite",)),
    Scenario("workers", "bench.scenario.workers", ("postgresql", "mariadb", "mysql")),
    Scenario("takeover", "bench.scenario.takeover", ("postgresql",)),
    Scenario("helping", "bench.scenario.helping", ("postgresql", "mariadb", "mysql")),
    Scenario("ledger", "bench.scenario.ledger", ("postgresql", "mariadb", "mysql")),
    Scenario(
        "ledger-processes",
        "bench.scenario.ledger_processes",
        ("postgresql", "mariadb", "mysql"),
    ),
    Scenario("hot", "bench.scenario.hot", ("postgresql", "mariadb", "mysql", "sqlite")),
    Scenario("sync", "bench.scenario.sync", ("postgresql", "mariadb", "mysql")),
    Scenario("console", "bench.scenario.console", ("postgresql",)),
    Scenario("memory", "bench.scenario.memory", ("postgresql",)),
)


def run(scenario: Scenario, store: Store, *, quick: bool) -> dict[str, object]:
    """The figures of one scenario on one store, or its failure under `failure`."""
    database = f"scenario_{os.urandom(4).hex()}"
    arguments = [sys.executable, "-m", scenario.module, *(["--quick"] if quick else [])]
    with tempfile.TemporaryDirectory(prefix="windlass-tally-") as folder:
        address = store.create_database(database)
        try:
            output = command.run(
                arguments,
                {
                    "BENCH_URL": address,
                    SERVER: str(getattr(store, "pid", None) or ""),
                    tally.FOLDER_VARIABLE: folder,
                },
            )
        except command.CommandFailed as failure:
            return {"failure": str(failure)}
        finally:
            store.drop_database(database)
    return dict(json.loads(output.splitlines()[-1]))
