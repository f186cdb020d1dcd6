"""The no-op task as a Huey consumer loads it, on Redis or on SQLite."""

from __future__ import annotations

import os
from urllib.parse import urlparse

from huey import RedisHuey, SqliteHuey

from bench.contract import url
from bench.tally import Tally


def _open() -> RedisHuey | SqliteHuey:
    if url().startswith("redis:"):
        return RedisHuey("bench", url=url(), results=False)
    is_durable = os.environ.get("BENCH_DURABLE", "yes") == "yes"
    return SqliteHuey("bench", filename=urlparse(url()).path[1:], fsync=is_durable, results=False)


huey = _open()
ran = Tally()


@huey.task()
def noop(number: int) -> None:
    ran()
