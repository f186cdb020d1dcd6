"""pg-boss on PostgreSQL: two Node processes with four loops each, in batches."""

from __future__ import annotations

import os
import subprocess
import sys

import psycopg

from bench.contract import Command, main, url

# Completed jobs may stay, so the first question must be one that its index answers.
WAITS = """
select 1 from pgboss.job where name = 'noop' and state < 'active' and not blocked limit 1
"""
LEFT = "select 1 from pgboss.job where name = 'noop' and state < 'completed' limit 1"


def prepare() -> None:
    _enqueue("prepare", 0)


def enqueue_one(tasks: int) -> float:
    return _enqueue("one", tasks)


def enqueue_bulk(tasks: int) -> float:
    return _enqueue("bulk", tasks)


def workers() -> list[Command]:
    return [Command(["node", _script("worker.mjs")]) for _ in range(2)]


def is_empty() -> bool:
    with psycopg.connect(url()) as connection:
        return all(connection.execute(ask).fetchone() is None for ask in (WAITS, LEFT))


def _enqueue(verb: str, tasks: int) -> float:
    command = ["node", _script("enqueue.mjs"), verb, str(tasks)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _script(name: str) -> str:
    return os.path.join(os.environ["BENCH_HOME"], name)


if __name__ == "__main__":
    main(sys.modules[__name__])
