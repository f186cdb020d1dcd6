"""Which tasks run first, and how many at once."""

import asyncio
import threading
import time

import pytest

from tests.table import count
from windlass import BadInput, UnknownKind


class Crowd:
    """How many are inside at once, and the most there ever were."""

    def __init__(self):
        self.lock = threading.Lock()
        self.inside = self.most = self.total = 0

    def __enter__(self):
        with self.lock:
            self.inside += 1
            self.total += 1
            self.most = max(self.most, self.inside)

    def __exit__(self, *_):
        with self.lock:
            self.inside -= 1


def run(app, **settings):
    asyncio.run(app.worker(until_idle=True, **settings).run())


def test_higher_priorities_run_first_and_equals_in_order(app):
    seen = []

    @app.task
    def work(name: str) -> None:
        seen.append(name)

    for name, priority in [("c", 0), ("d", 0), ("e", -5), ("a", 10), ("b", 3)]:
        work.using(priority=priority).enqueue(name)
    run(app, concurrency=1)

    assert seen == ["a", "b", "c", "d", "e"]


def test_a_kind_has_a_priority_of_its_own(app):
    seen = []

    @app.task
    def low(name: str) -> None:
        seen.append(name)

    @app.task(priority=10)
    def high(name: str) -> None:
        seen.append(name)

    low.enqueue_many([{"name": f"low{number}"} for number in range(5)])
    high.enqueue_many([{"name": f"high{number}"} for number in range(5)])
    low.using(priority=20).enqueue("first")
    run(app, concurrency=1)

    assert seen[0] == "first"
    assert seen[1:6] == [f"high{number}" for number in range(5)]
    assert seen[6:] == [f"low{number}" for number in range(5)]


@pytest.mark.parametrize("priority", [-32_768, 32_767])
def test_the_outermost_priorities_work(app, priority):
    seen = []

    @app.task
    def work() -> None:
        seen.append(priority)

    work.using(priority=priority).enqueue()
    app.drain()

    assert seen == [priority]


@pytest.mark.parametrize("priority", [-32_769, 32_768, 1.5, "high", True])
def test_a_bad_priority_is_refused(app, priority):
    @app.task
    def work() -> None: ...

    with pytest.raises(BadInput, match=r"priority=.* is not a number from -32768 to 32767"):
        work.using(priority=priority).enqueue()

    assert count(app) == 0


def test_a_kind_runs_no_more_at_once_than_its_concurrency(app):
    slow, fast = Crowd(), Crowd()

    @app.task(concurrency=2)
    async def limited() -> None:
        with slow:
            await asyncio.sleep(0.01)

    @app.task
    async def free() -> None:
        with fast:
            await asyncio.sleep(0.01)

    limited.enqueue_many([{}] * 12)
    free.enqueue_many([{}] * 30)
    app.drain()

    assert (slow.total, slow.most) == (12, 2)
    assert fast.total == 30
    assert fast.most > 2


def test_sync_handlers_have_the_same_limits(app):
    crowd = Crowd()

    @app.task(concurrency=3)
    def limited() -> None:
        with crowd:
            time.sleep(0.01)

    limited.enqueue_many([{}] * 15)
    app.drain()

    assert (crowd.total, crowd.most) == (15, 3)


def test_a_worker_runs_no_more_at_once_than_its_concurrency(app):
    crowd = Crowd()

    @app.task
    def blocking() -> None:
        with crowd:
            time.sleep(0.005)

    @app.task
    async def waiting() -> None:
        with crowd:
            await asyncio.sleep(0.005)

    blocking.enqueue_many([{}] * 15)
    waiting.enqueue_many([{}] * 15)
    run(app, concurrency=4)

    assert crowd.total == 30
    assert 2 <= crowd.most <= 4


def test_a_worker_may_serve_some_kinds_only(app):
    seen = []

    @app.task
    def mail() -> None:
        seen.append("mail")

    @app.task
    def report() -> None:
        seen.append("report")

    mail.enqueue()
    report.enqueue()
    run(app, kinds=["report"])

    assert seen == ["report"]
    assert count(app) == 1


def test_a_worker_for_an_unknown_kind_is_refused(app):
    @app.task
    def mail() -> None: ...

    with pytest.raises(UnknownKind, match="'post' is not declared in this app; declared: mail"):
        app.worker(kinds=["post"])


@pytest.mark.parametrize("concurrency", [0, -1, "many", 1.5])
def test_a_worker_needs_room_for_one_task(app, concurrency):
    with pytest.raises(BadInput, match="concurrency"):
        app.worker(concurrency=concurrency)


def test_a_rate_spreads_the_starts(app):
    starts = []

    @app.task(rate="50/s")
    def paced() -> None:
        starts.append(time.monotonic())

    @app.task
    def other() -> None: ...

    paced.enqueue_many([{}] * 20)
    app.drain()

    assert len(starts) == 20
    assert starts[-1] - starts[0] >= 0.25
    assert count(app) == 0
