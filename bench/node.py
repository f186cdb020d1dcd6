"""What peers on Node have in common: scripts in a folder of their own, and two worker processes."""

from __future__ import annotations

import os
import subprocess

from bench.contract import Command


def prepare() -> None:
    _enqueue("prepare", 0)


def enqueue_one(tasks: int) -> float:
    return _enqueue("one", tasks)


def enqueue_bulk(tasks: int) -> float:
    return _enqueue("bulk", tasks)


def workers() -> list[Command]:
    return [Command(["node", _script("worker.mjs")]) for _ in range(2)]


def _enqueue(verb: str, tasks: int) -> float:
    command = ["node", _script("enqueue.mjs"), verb, str(tasks)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _script(name: str) -> str:
    return os.path.join(os.environ["BENCH_HOME"], name)
