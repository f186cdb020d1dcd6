"""Every system that is measured, with the store it uses and its best settings."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from bench import install


@dataclass(frozen=True)
class System:
    """One line of the table."""

    name: str
    title: str
    store: str
    command: Callable[[], list[str]]
    settings: str
    has_bulk: bool = True
    share: float = 1.0
    """The part of `--tasks` that it gets, so that slow systems do not take all day."""
    environment: dict[str, str] = field(default_factory=dict)
    peer: str | None = None

    @property
    def is_own(self) -> bool:
        return self.name.startswith("windlass-")

    @property
    def is_raw(self) -> bool:
        return self.name.startswith("raw-")


def _own(store: str, settings: str) -> System:
    return System(
        name=f"windlass-{store}",
        title="Windlass",
        store=store,
        command=lambda: [sys.executable, "-m", "bench.own"],
        settings=settings,
    )


def _raw(store: str, variant: str, settings: str) -> System:
    titles = {"delete": "raw SQL, delete", "update": "raw SQL, update", "read": "raw SQL, read"}
    return System(
        name=f"raw-{store}-{variant}",
        title=titles[variant],
        store=store,
        command=lambda: [sys.executable, "-m", "bench.raw", variant],
        settings=settings,
    )


def _peer(
    name: str,
    title: str,
    store: str,
    *,
    settings: str,
    has_bulk: bool = True,
    share: float = 1.0,
    environment: dict[str, str] | None = None,
) -> System:
    peer = name.partition("-")[0]
    return System(
        name=name,
        title=title,
        store=store,
        command=lambda: [install.python(peer), "-m", f"bench.peer.{peer}"],
        settings=settings,
        has_bulk=has_bulk,
        share=share,
        environment=environment or {},
        peer=peer,
    )


TWO = "two processes"
ROWS = "1,000 rows a turn"
FULL = "WAL, synchronous full"
SYSTEMS = (
    _own("postgresql", TWO),
    _raw("postgresql", "read", f"{TWO}, {ROWS}, no written claim"),
    _raw("postgresql", "delete", f"{TWO}, {ROWS}"),
    _raw("postgresql", "update", f"{TWO}, {ROWS}"),
    _peer(
        "graphile",
        "Graphile Worker",
        "postgresql",
        settings=f"{TWO}, local queue 2,000, concurrency 100, completions batched",
    ),
    _peer(
        "pgboss",
        "pg-boss",
        "postgresql",
        settings=f"{TWO} of four loops that fetch and delete batches of 2,000",
    ),
    _peer(
        "pgboss-complete",
        "pg-boss, work()",
        "postgresql",
        settings=f"{TWO} of four workers, batches of 1,000, the next one at once, jobs kept",
        environment={"BENCH_FINISH": "complete"},
    ),
    _peer(
        "pgqueuer",
        "PgQueuer",
        "postgresql",
        settings=f"{TWO}, batches of 1,000, asyncpg, uvloop",
    ),
    _peer(
        "procrastinate",
        "Procrastinate",
        "postgresql",
        settings=f"{TWO}, concurrency 10, finished jobs deleted",
        share=0.05,
    ),
    _own("mariadb", TWO),
    _raw("mariadb", "read", f"{TWO}, {ROWS}, no written claim"),
    _raw("mariadb", "delete", f"{TWO}, {ROWS}"),
    _raw("mariadb", "update", f"{TWO}, {ROWS}"),
    _own("mysql", TWO),
    _raw("mysql", "read", f"{TWO}, {ROWS}, no written claim"),
    _raw("mysql", "delete", f"{TWO}, {ROWS}"),
    _raw("mysql", "update", f"{TWO}, {ROWS}"),
    _own("sqlite", "one process"),
    _raw("sqlite", "read", f"one process, {FULL}, {ROWS}, no written claim"),
    _raw("sqlite", "delete", f"one process, {FULL}, {ROWS}"),
    _raw("sqlite", "update", f"one process, {FULL}, {ROWS}"),
    _peer(
        "huey-sqlite",
        "Huey",
        "sqlite",
        settings=f"{TWO}, {FULL}, no results",
        has_bulk=False,
        share=0.3,
    ),
    _peer(
        "huey-sqlite-off",
        "Huey, not durable",
        "sqlite",
        settings=f"{TWO}, WAL, synchronous off, no results",
        has_bulk=False,
        share=0.3,
        environment={"BENCH_DURABLE": "no"},
    ),
    _peer(
        "huey-redis",
        "Huey",
        "redis",
        settings="four processes, no results",
        has_bulk=False,
        share=0.3,
    ),
    _peer(
        "dramatiq",
        "Dramatiq",
        "redis",
        settings=f"{TWO} of four threads, prefetch 100",
        has_bulk=False,
        share=0.3,
    ),
    _peer(
        "celery",
        "Celery",
        "redis",
        settings=f"{TWO} (solo pool), prefetch 1,000, no results, no events",
        has_bulk=False,
        share=0.1,
    ),
)


def choose(names: list[str]) -> list[System]:
    """The systems of the given names or prefixes (`raw`, `windlass`, `huey`); all without any."""
    if not names:
        return list(SYSTEMS)
    return [
        system
        for system in SYSTEMS
        if any(system.name == name or system.name.startswith(f"{name}-") for name in names)
    ]
