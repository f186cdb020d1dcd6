"""Many tasks of many kinds: each runs exactly as often as it should."""

import asyncio
from collections import Counter

from tests.table import count, tasks
from windlass import Cancel, Retry, Snooze, Status
from windlass.core.finish.store import work_since


def declare_mix(app, runs):
    @app.task
    async def quick(number: int) -> None:
        runs["quick", number] += 1

    @app.task
    def blocking(number: int) -> None:
        runs["blocking", number] += 1

    @app.task(concurrency=5)
    async def waiting(number: int) -> int:
        runs["waiting", number] += 1
        await asyncio.sleep(0)
        return number

    @app.task(retries=2)
    def flaky(number: int) -> None:
        runs["flaky", number] += 1
        if runs["flaky", number] == 1:
            raise Retry(after="0s")

    @app.task
    async def moody(number: int) -> None:
        runs["moody", number] += 1
        if number % 3 == 0 and runs["moody", number] == 1:
            raise Snooze("0s")
        if number % 3 == 1:
            raise Cancel("no")
        if number % 3 == 2:
            raise ValueError("no")

    return {
        "quick": quick,
        "blocking": blocking,
        "waiting": waiting,
        "flaky": flaky,
        "moody": moody,
    }


def test_five_thousand_tasks_of_a_mix_of_kinds_each_run_as_they_should(app):
    runs = Counter()
    mix = declare_mix(app, runs)

    for kind in mix.values():
        kind.enqueue_many([{"number": number} for number in range(1000)])
    app.drain()

    assert [runs["quick", number] for number in range(1000)] == [1] * 1000
    assert [runs["blocking", number] for number in range(1000)] == [1] * 1000
    assert [runs["waiting", number] for number in range(1000)] == [1] * 1000
    assert [runs["flaky", number] for number in range(1000)] == [2] * 1000
    assert [runs["moody", number] for number in range(1000)] == [
        2 if number % 3 == 0 else 1 for number in range(1000)
    ]
    left = Counter((row["kind"], Status(row["status"])) for row in tasks(app))
    assert left == {
        ("waiting", Status.SUCCEEDED): 1000,
        ("moody", Status.CANCELLED): 333,
        ("moody", Status.FAILED): 333,
    }
    work = {
        each.kind: (each.done, each.failed, each.retried)
        for each in app.database.read(lambda connection: work_since(connection, minute=0))
    }
    assert work["quick"] == (1000, 0, 0)
    assert work["flaky"] == (1000, 0, 1000)
    assert work["moody"] == (667, 333, 0)


def test_ids_are_unique_however_tasks_are_enqueued(app):
    @app.task
    def work() -> None: ...

    ids = [work.enqueue().id for _ in range(200)]
    ids += [ref.id for ref in work.enqueue_many([{}] * 3000)]

    assert len(set(ids)) == 3200
    assert count(app) == 3200
