"""Keys stay unique while shards drain, open and are emptied under those who write."""

import random
import threading
import time
from collections import Counter

import pytest

from tests.core.shard.fleet import rows
from tests.fixture.app import lend_set
from windlass.operate.shard import operate

KEYS = [f"k{number}" for number in range(40)]
SECONDS = 1.5


@pytest.fixture(params=["sqlite", "postgresql", pytest.param("mixed", marks=pytest.mark.slow)])
def shard_urls(request, pools, pytestconfig):
    with lend_set(request.param, pools, pytestconfig) as urls:
        yield urls


def test_a_key_is_never_in_two_places(shard_urls, make_app, quick_moves):
    apps = [make_app(*shard_urls) for _ in range(4)]
    tasks, items = zip(*(declare(app) for app in apps), strict=True)
    operator = apps[0]
    operator.migrate()
    over, problems, ids, added = threading.Event(), [], [], set()

    def write(seed):
        # Two threads share an app, and what it knows of the shards.
        chance, index = random.Random(seed), 1 + seed // 2
        try:
            while not over.is_set():
                key = chance.choice(KEYS)
                how = chance.choice(["skip", "replace"])
                ref = tasks[index].using(key=key, delay="1h", on_conflict=how).enqueue(index)
                ids.append((key, ref.id))
                codes = chance.sample(KEYS, 3)
                items[index].add(codes, now=chance.random() < 0.5)
                added.update(codes)
        except Exception as problem:  # noqa: BLE001
            problems.append(problem)

    writers = [threading.Thread(target=write, args=(index,)) for index in range(6)]
    for writer in writers:
        writer.start()
    chance, began, drains = random.Random(7), time.monotonic(), 0
    # A busy machine takes longer for the few that it must have seen.
    while time.monotonic() - began < (SECONDS if drains > 3 else 20.0) and not problems:
        name = str(chance.randint(1, len(shard_urls)))
        operate.drain(operator.fleet, name)
        if chance.random() < 0.7:
            operate.move(operator.fleet, name, dead_after=5_000_000, due=True, wait=False)
        operate.drain(operator.fleet, name, undo=True)
        drains += 1
    over.set()
    for writer in writers:
        writer.join(30)

    assert problems == []
    assert drains > 3
    for kind, written in (("work", {key for key, _ in ids}), ("level", added)):
        held = Counter(row["task_key"] for found in rows(operator, kind=kind) for row in found)
        assert held == Counter(written)
    # A task was never made anew: everyone was given the same id for the same key.
    assert len(set(ids)) == len({key for key, _ in ids})
    assert items[0].freshness().total == len(added)


def declare(app):
    @app.task
    def work(number: int) -> None: ...

    @app.rolling(every="1d")
    def level(code: str) -> None: ...

    return work, level
