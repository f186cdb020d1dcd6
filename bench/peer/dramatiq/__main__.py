"""Dramatiq on Redis: two processes of four threads, prefetch 100."""

from __future__ import annotations

import sys

import redis

from bench.contract import Command, main, url
from bench.peer.dramatiq.app import noop


def prepare() -> None:
    """Nothing: Dramatiq makes its keys as it goes."""


def enqueue_one(tasks: int) -> None:
    for number in range(tasks):
        noop.send(number)


def workers() -> list[Command]:
    worker = [sys.executable, "-m", "dramatiq", "bench.peer.dramatiq.app"]
    size = ["--processes", "2", "--threads", "4"]
    return [Command([*worker, *size], {"dramatiq_queue_prefetch": "100"})]


def is_empty() -> bool:
    return not redis.Redis.from_url(url()).hlen("dramatiq:default.msgs")


if __name__ == "__main__":
    main(sys.modules[__name__])
