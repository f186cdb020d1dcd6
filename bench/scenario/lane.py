"""Tasks with lanes a second, beside tasks without, and pg-boss with its policy `key_strict_fifo`.

Each shape is a number of lanes with as many rows in each. All rows wait, then the workers start:
two processes, one on SQLite. `of_plain` is set beside the mean of two drains of as many tasks
without a lane, the first and the last of the run. pg-boss is measured on PostgreSQL, for a limited
time: its column `rows` says how many of all it did.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg

from bench import install, own, tally
from bench.contract import POLL_SECONDS, Command, clock, end_in_order_when_told, running, url
from bench.raw.session import Session
from bench.scenario.crew import worker
from bench.scenario.lane_app import app, laned, noop

SHAPES = ((8_000, 25), (2_000, 100), (200, 1_000))
QUICK_SHAPES = ((800, 5), (200, 20), (20, 200))
AT_ONCE = 50_000
PEER_SECONDS = 20.0
PEER = "pgboss"
END_OTHERS = """
select pg_terminate_backend(pid, 5000) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid()
"""
FOLDER = Path(os.environ[tally.FOLDER_VARIABLE])

Figures = dict[str, float]


def main() -> None:
    end_in_order_when_told()
    shapes = QUICK_SHAPES if "--quick" in sys.argv else SHAPES
    rows = max(lanes * each for lanes, each in shapes)
    app.migrate()
    table: dict[str, Figures] = {}
    plain = [drain_plain(rows)]
    for lanes, each in shapes:
        table[f"{lanes:,} lanes x {each:,}"] = drain_lanes(lanes, lanes * each)
    plain.append(drain_plain(rows))
    if url().startswith("postgresql"):
        for lanes, each in shapes:
            table[f"pg-boss {lanes:,} keys x {each:,}"] = drain_peer(lanes, lanes * each)
    base = sum(found["per_second"] for found in plain) / len(plain)
    table["without lanes"] = {"rows": rows, "per_second": round(base)}
    for found in table.values():
        found["of_plain"] = round(found["per_second"] / base, 3)
    print(json.dumps({"plain": [found["per_second"] for found in plain], "drains": table}))


def drain_plain(rows: int) -> Figures:
    for begin in range(0, rows, AT_ONCE):
        noop.enqueue_many([{"n": number} for number in range(begin, min(rows, begin + AT_ONCE))])
    return drain(rows)


def drain_lanes(lanes: int, rows: int) -> Figures:
    for begin in range(0, rows, AT_ONCE):
        numbers = range(begin, min(rows, begin + AT_ONCE))
        laned.enqueue_many([{"n": number, "lane": f"L{number % lanes}"} for number in numbers])
    return drain(rows)


def drain(rows: int) -> Figures:
    Session(url()).analyse("windlass_task")
    processes = "1" if url().startswith("sqlite") else "2"
    tally.clear(FOLDER)
    with running([worker("bench.scenario.lane_app:app", "--processes", processes)]) as started:
        seconds, ran = clock(rows, own.is_empty, started)
    if ran < rows:
        raise SystemExit(f"only {ran} of {rows} tasks ran")
    return {"rows": rows, "per_second": round(rows / seconds)}


def drain_peer(keys: int, rows: int) -> Figures:
    """What pg-boss does in a limited time, with the policy that keeps the order of each key."""
    home = install.home(PEER)
    os.environ["BENCH_KEYS"] = str(keys)
    with psycopg.connect(url(), autocommit=True) as connection:
        # The server may still be busy with a statement of the last workers.
        connection.execute(END_OTHERS)
        connection.execute("drop schema if exists pgboss cascade")
    for verb in ("prepare", "bulk"):
        _node([str(home / "enqueue.mjs"), verb, str(rows)])
    with psycopg.connect(url(), autocommit=True) as connection:
        connection.execute("vacuum (analyze)")
    tally.clear(FOLDER)
    with running([Command(["node", str(home / "worker.mjs")])] * 2):
        seconds, ran = _watch(rows)
    return {"rows": ran, "per_second": round(ran / seconds)}


def _watch(rows: int) -> tuple[float, int]:
    """Seconds since the first run, and runs, when all have run or the time is over."""
    while True:
        progress, now = tally.read(FOLDER), time.time_ns()
        if progress.first_ns is not None:
            seconds = (now - progress.first_ns) / 1e9
            if progress.runs >= rows or seconds > PEER_SECONDS:
                return seconds, progress.runs
        time.sleep(POLL_SECONDS)


def _node(arguments: Sequence[str]) -> None:
    subprocess.run(["node", *arguments], check=True, capture_output=True)


if __name__ == "__main__":
    main()
