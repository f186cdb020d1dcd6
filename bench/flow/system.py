"""Every system that runs the flows, with its store and its best settings."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from bench import install

SHAPES = ("chain-200", "fan-500", "fan-1000", "layered-10000")
QUICK_SHAPES = ("chain-20", "fan-50", "layered-300")


@dataclass(frozen=True)
class FlowSystem:
    """One line of the table."""

    name: str
    title: str
    keeps: str
    """Where outcomes are kept, for people."""
    command: Callable[[], list[str]]
    settings: str
    store: str | None = None
    """The server that it needs, or none."""
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def is_own(self) -> bool:
        return self.name.startswith("flow-windlass-")


def _own(store: str, keeps: str, workers: int) -> FlowSystem:
    return FlowSystem(
        name=f"flow-windlass-{store}-{workers}",
        title=f"Windlass, {workers} worker{'s' if workers > 1 else ''}",
        keeps=keeps,
        command=lambda: [sys.executable, "-m", "bench.flow.own"],
        settings="every outcome committed",
        store=store,
        environment={"BENCH_WORKERS": str(workers)},
    )


def _peer(
    name: str, title: str, keeps: str, *, settings: str, store: str | None = None
) -> FlowSystem:
    return FlowSystem(
        name=f"flow-{name}",
        title=title,
        keeps=keeps,
        command=lambda: [install.python(name), "-m", f"bench.peer.{name}"],
        settings=settings,
        store=store,
    )


REFERENCE = "flow-windlass-postgresql-1"
FLOW_SYSTEMS = (
    _own("postgresql", "PostgreSQL", 1),
    _own("postgresql", "PostgreSQL", 2),
    _own("mariadb", "MariaDB", 1),
    _own("mariadb", "MariaDB", 2),
    _own("mysql", "MySQL", 1),
    _own("mysql", "MySQL", 2),
    _own("sqlite", "SQLite", 1),
    _peer(
        "luigi",
        "Luigi",
        "files",
        settings="local scheduler, one worker in its process, a target file a node, no second look",
    ),
    _peer(
        "dbos",
        "DBOS",
        "PostgreSQL",
        settings="one workflow of async steps, all steps of a layer gathered",
        store="postgresql",
    ),
    _peer(
        "prefect",
        "Prefect",
        "PostgreSQL",
        settings="local server, thread pool of 10, no results kept, no logs sent",
        store="postgresql",
    ),
    _peer(
        "dagster",
        "Dagster",
        "PostgreSQL",
        settings="job of ops, in-process executor, no captured output",
        store="postgresql",
    ),
    _peer(
        "airflow",
        "Airflow",
        "PostgreSQL",
        settings="dag.test(), one node after the other in its process",
        store="postgresql",
    ),
    _peer(
        "dask",
        "Dask",
        "memory",
        settings="LocalCluster of two threads in its process, graph in one call, not fused",
    ),
)


def choose(names: list[str]) -> list[FlowSystem]:
    """The systems of the given names or prefixes (`flow`, `flow-windlass`); none without any."""
    return [
        system
        for system in FLOW_SYSTEMS
        if any(system.name == name or system.name.startswith(f"{name}-") for name in names)
    ]
