"""`python -m bench`: Windlass, its peers and the raw SQL limit, side by side."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from bench import chart, report, scenario
from bench.contract import end_in_order_when_told
from bench.flow import measure as flow
from bench.flow import table
from bench.flow.system import FLOW_SYSTEMS, QUICK_SHAPES, SHAPES
from bench.flow.system import choose as choose_flows
from bench.measure import Stores, measure, stores
from bench.scenario import SCENARIOS
from bench.server import STORES
from bench.system import SYSTEMS, choose

QUICK_TASKS = 5000


def main() -> int:
    options = _options()
    end_in_order_when_told()
    progress = Console(stderr=True)

    def tell(line: str) -> None:
        progress.print(line, style="dim")

    with stores() as running:
        records = measure(
            [system for system in choose(options.only) if system.store in options.store],
            running,
            tasks=options.tasks,
            rounds=options.rounds,
            tell=tell,
        )
        flows = _run_flows(options, running, tell)
        figures = _run_scenarios(options, running, tell)
        versions = running.versions()
    console = Console(width=None if sys.stdout.isatty() else 120)
    report.show(records, figures, console)
    table.show(flows, console)
    if options.json:
        facts = {"tasks": options.tasks, "rounds": options.rounds}
        report.save(
            records,
            figures,
            options.json,
            flows=[table.plain(record) for record in flows],
            versions=versions,
            options=facts,
        )
    if options.chart:
        note = _conditions(options.rounds)
        chart.save(records, options.chart, note=note, versions=versions)
    has_failed = any(record.failure for record in [*records, *flows])
    return int(has_failed or any("failure" in figure for figure in figures))


def _run_flows(
    options: argparse.Namespace, running: Stores, tell: Callable[[str], None]
) -> list[flow.FlowRecord]:
    return flow.measure(
        [
            system
            for system in choose_flows(options.only)
            if system.store is None or system.store in options.store
        ],
        running,
        shapes=QUICK_SHAPES if options.quick else SHAPES,
        rounds=options.rounds,
        tell=tell,
    )


def _run_scenarios(
    options: argparse.Namespace, running: Stores, tell: Callable[[str], None]
) -> list[dict[str, object]]:
    figures = []
    for chosen in SCENARIOS:
        if chosen.name not in options.only:
            continue
        for store in (store for store in chosen.stores if store in options.store):
            tell(f"{chosen.name} on {store}")
            found = scenario.run(chosen, running.get(store), quick=options.quick)
            figures.append({"scenario": chosen.name, "store": store, **found})
    return figures


def _conditions(rounds: int) -> str:
    cores = len(os.sched_getaffinity(0))
    how_often = f"median of {rounds} rounds" if rounds > 1 else "one round"
    return f"{cores} cores shared with the servers; durable commits but for Redis; {how_often}"


def _options() -> argparse.Namespace:
    scenarios = [chosen.name for chosen in SCENARIOS]
    systems = [system.name for system in (*SYSTEMS, *FLOW_SYSTEMS)]
    names = ", ".join([*systems, *scenarios])
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, epilog=f"names: {names}"
    )
    parser.add_argument("--quick", action="store_true", help="few tasks, just to see it run")
    parser.add_argument("--only", default="", help="names or prefixes, with commas between")
    parser.add_argument("--store", default=",".join(STORES), help="stores, with commas between")
    parser.add_argument("--tasks", type=int, default=None, help="tasks to drain (100000)")
    parser.add_argument("--rounds", type=int, default=1, help="measure so often, tell the median")
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    parser.add_argument("--chart", type=Path, help="draw the drains to this SVG file")
    options = parser.parse_args()
    options.tasks = options.tasks or (QUICK_TASKS if options.quick else 100_000)
    options.only = [name for name in options.only.split(",") if name]
    options.store = [name for name in options.store.split(",") if name]
    for name in options.store:
        if name not in STORES:
            parser.error(f"unknown store {name!r}; known: {', '.join(STORES)}")
    unknown = [
        name
        for name in options.only
        if name not in scenarios and not choose([name]) and not choose_flows([name])
    ]
    if unknown:
        parser.error(f"unknown name {unknown[0]!r}; known: {names}")
    return options


if __name__ == "__main__":
    sys.exit(main())
