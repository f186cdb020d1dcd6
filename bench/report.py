"""What was measured, for people and for programs."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import server
from bench.measure import Record

Figures = dict[str, object]

MEASURES = ("one", "bulk", "drain")
RATIO = """ratio: drain to that of Windlass on the same database (on PostgreSQL for Redis),
or, while Windlass was not measured, to that of the raw loop that deletes."""
STORE_TITLES = {
    "postgresql": "PostgreSQL",
    "mariadb": "MariaDB",
    "mysql": "MySQL",
    "sqlite": "SQLite",
    "redis": "Redis",
}


def show(records: Sequence[Record], figures: Sequence[Figures], console: Console) -> None:
    if records:
        _show_systems(records, console)
    for figure in figures:
        plain = {name: value for name, value in figure.items() if not isinstance(value, dict)}
        console.print("  ".join(f"{name} {value}" for name, value in plain.items()), markup=False)
        for name, rows in figure.items():
            if isinstance(rows, dict):
                _show_rows(f"{figure['scenario']}: {name}", rows, console)


def _show_rows(title: str, rows: dict[str, dict[str, float]], console: Console) -> None:
    """Figures that come by name, the largest of the last but one first."""
    table = Table(title=title, title_justify="left")
    table.add_column("", overflow="fold")
    heads = list(next(iter(rows.values())))
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for name, row in sorted(rows.items(), key=lambda pair: -pair[1][heads[-2]]):
        table.add_row(name, *(f"{row[head]:,}" for head in heads))
    console.print(table)


def _show_systems(records: Sequence[Record], console: Console) -> None:
    table = Table(title="No-op tasks per second", title_justify="left")
    table.add_column("store", no_wrap=True)
    table.add_column("system", no_wrap=True)
    for title in ("one by one", "bulk", "drain", "ratio", "deadlocks", "tasks"):
        table.add_column(title, justify="right", no_wrap=True)
    for index, record in enumerate(records):
        is_last = index + 1 == len(records)
        ends_store = not is_last and records[index + 1].system.store != record.system.store
        table.add_row(*_cells(record, records), end_section=ends_store, style=_style(record))
    console.print(table)
    console.print(RATIO, style="dim")
    for line in _beside_raw(records):
        console.print(line, markup=False)
    for record in records:
        if record.failure:
            console.print(f"{record.system.name}: {record.failure}", style="red", markup=False)


def _beside_raw(records: Sequence[Record]) -> Iterator[str]:
    """What part of each bare loop's drain Windlass reaches on the same database."""
    drains = {record.system.name: record.median("drain") for record in records}
    for store, title in STORE_TITLES.items():
        own = drains.get(f"windlass-{store}")
        parts = [
            f"{own / raw:.0%} of {variant}"
            for variant in ("read", "delete", "update")
            if own and (raw := drains.get(f"raw-{store}-{variant}"))
        ]
        if parts:
            yield f"Windlass beside raw SQL on {title}: {', '.join(parts)}"


def save(
    records: Sequence[Record],
    figures: Sequence[Figures],
    path: Path,
    *,
    flows: Sequence[Figures],
    versions: dict[str, str],
    options: dict[str, object],
) -> None:
    """Write machine, settings and every single trial, so that others can judge or repeat it."""
    document = {
        "machine": _machine(),
        "servers": versions,
        "server_settings": {
            "postgresql": [*server.POSTGRESQL_SETTINGS, "fsync=on", "synchronous_commit=on"],
            "mariadb": [*server.MARIADB_SETTINGS, "--innodb-flush-log-at-trx-commit=1"],
            "mysql": [*server.MYSQL_SETTINGS, "--innodb-flush-log-at-trx-commit=1"],
            "redis": list(server.REDIS_SETTINGS),
        },
        "options": options,
        "unit": "tasks per second",
        "systems": [_plain(record) for record in records],
        "flows": list(flows),
        "scenarios": list(figures),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n")


def reference(record: Record, records: Sequence[Record]) -> float | None:
    """The drain that this system is compared with."""
    store = "postgresql" if record.system.store == "redis" else record.system.store
    drains = {other.system.name: other.median("drain") for other in records}
    return drains.get(f"windlass-{store}") or drains.get(f"raw-{store}-delete")


def _cells(record: Record, records: Sequence[Record]) -> list[str]:
    store = STORE_TITLES[record.system.store]
    if record.failure and not record.rates("drain"):
        return [store, record.system.title, "", "", "failed", "", "", ""]
    rates = [_rate(record, measure) for measure in MEASURES]
    base, drain = reference(record, records), record.median("drain")
    ratio = f"{drain / base:.2f}" if base and drain else ""
    tasks = max((trial.tasks for trial in record.trials), default=0)
    deadlocks = "" if record.deadlocks is None else f"{record.deadlocks:,}"
    return [store, record.system.title, *rates, ratio, deadlocks, f"{tasks:,}"]


def _rate(record: Record, measure: str) -> str:
    """The median, and the spread where there were several rounds."""
    rates = record.rates(measure)
    if not rates:
        return "-" if measure == "bulk" else ""
    median = f"{record.median(measure):,.0f}"
    if len(rates) == 1:
        return median
    return f"{median}\n[dim]{min(rates):,.0f}-{max(rates):,.0f}[/dim]"


def _style(record: Record) -> str:
    if record.system.is_own:
        return "bold green"
    return "dim" if record.system.is_raw else ""


def _plain(record: Record) -> dict[str, object]:
    system = record.system
    return {
        "name": system.name,
        "title": system.title,
        "store": system.store,
        "settings": system.settings,
        "median": {measure: _rounded(record.median(measure)) for measure in MEASURES},
        "rounds": [
            {measure: _rounded(getattr(trial, measure)) for measure in MEASURES}
            | {"tasks": trial.tasks}
            for trial in record.trials
        ],
        "deadlocks": record.deadlocks,
        "failure": record.failure,
    }


def _rounded(rate: float | None) -> int | None:
    return None if rate is None else round(rate)


def _machine() -> dict[str, object]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
