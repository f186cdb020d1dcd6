"""Celery on Redis: two solo workers, early acknowledgement, no results, no events."""

from __future__ import annotations

import sys

import redis

from bench.contract import Command, main, url
from bench.peer.celery.app import app, noop


def prepare() -> None:
    """Nothing: Celery makes its keys as it goes."""


def enqueue_one(tasks: int) -> None:
    with app.producer_pool.acquire(block=True) as producer:
        for number in range(tasks):
            noop.apply_async((number,), producer=producer)


def workers() -> list[Command]:
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR"]
    worker = [sys.executable, "-m", "celery", "-A", "bench.peer.celery.app", "worker"]
    return [
        Command([*worker, "--pool=solo", f"--hostname=worker-{number}", *quiet])
        for number in range(2)
    ]


def is_empty() -> bool:
    store = redis.Redis.from_url(url())
    return not store.llen("celery") and not store.hlen("unacked")


if __name__ == "__main__":
    main(sys.modules[__name__])
