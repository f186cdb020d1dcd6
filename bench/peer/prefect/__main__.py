"""Prefect with a server of its own on PostgreSQL, nodes as tasks of a thread pool.

A flow returns before its server has written down what ran, so the seconds until
the database shows every task as completed stand on a line of their own.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.contract import Command, running, url
from bench.flow import journal
from bench.flow.contract import After, Declare, Run, folder, main
from bench.flow.shape import Shape

THREADS = 10
START_SECONDS = 200.0
RECORD_LIMIT_SECONDS = 120.0
LOOK_SECONDS = 0.05
QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_LEVEL": "ERROR",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_CLI_PROMPT": "false",
    "DO_NOT_TRACK": "1",
}


@contextmanager
def run_prefect() -> Iterator[Declare]:
    port = _free_port()
    os.environ |= QUIET | {
        "PREFECT_HOME": str(folder()),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_API_DATABASE_CONNECTION_URL": url().replace("://", "+asyncpg://"),
    }
    program = str(Path(sys.executable).with_name("prefect"))
    serve = Command([program, "server", "start", "--host", "127.0.0.1", "--port", str(port)])
    with running([serve]) as (server,):
        _wait_until_healthy(f"http://127.0.0.1:{port}/api/health", server)
        yield _declare


def _declare(shape: Shape) -> Run:
    # Its settings are read from the environment at the import.
    from prefect import flow, task
    from prefect.task_runners import ThreadPoolTaskRunner

    @task
    def node(number: int) -> None:
        journal.note(number)

    @flow(task_runner=ThreadPoolTaskRunner(max_workers=THREADS))
    def graph() -> None:
        futures = []
        for number, parents in enumerate(shape.parents):
            futures.append(node.submit(number, wait_for=[futures[each] for each in parents]))
        for number in shape.ends:
            futures[number].result()

    def run() -> After:
        before = asyncio.run(_completed())
        begin = time.perf_counter()
        graph()
        return lambda: {"until recorded": _recorded_seconds(begin, before + len(shape))}

    return run


def _recorded_seconds(begin: float, tasks: int) -> float:
    while asyncio.run(_completed()) < tasks:
        if time.perf_counter() - begin > RECORD_LIMIT_SECONDS:
            return float("inf")
        time.sleep(LOOK_SECONDS)
    return time.perf_counter() - begin


async def _completed() -> int:
    import asyncpg

    connection = await asyncpg.connect(url())
    try:
        counted = "select count(*) from task_run where state_type = 'COMPLETED'"
        return int(await connection.fetchval(counted))
    finally:
        await connection.close()


def _wait_until_healthy(address: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise
        time.sleep(LOOK_SECONDS)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main(run_prefect)
