"""`wait=`: the first one that is due waits for others, and no longer than that."""

import time

import pytest

from tests.core.run.working import working
from tests.wait import eventually

pytestmark = pytest.mark.mostly("sqlite")


@pytest.fixture
def seen():
    return []


@pytest.mark.parametrize("is_async", [True, False])
def test_tasks_that_come_one_by_one_are_called_together(app, seen, is_async):
    def write(rows: list[int]) -> None:
        seen.append((time.monotonic(), rows))

    async def awrite(rows: list[int]) -> None:
        write(rows)

    task = app.task(many=100, wait="400ms", name="write")(awrite if is_async else write)

    with working(app):
        began = time.monotonic()
        for number in range(5):
            task.enqueue(number)
        eventually(lambda: seen)

    assert [sorted(rows) for _, rows in seen] == [[0, 1, 2, 3, 4]]
    assert seen[0][0] - began >= 0.4


def test_a_full_list_does_not_wait(app, seen):
    @app.task(many=3, wait="1h")
    def write(rows: list[int]) -> None:
        seen.append(rows)

    with working(app):
        write.enqueue_many(range(6))
        eventually(lambda: len(seen) == 2)

    assert [len(rows) for rows in seen] == [3, 3]


def test_what_waits_for_company_is_returned_when_the_worker_stops(app, seen):
    @app.task(many=3, wait="1h")
    def write(rows: list[int]) -> None:
        seen.append(rows)

    with working(app) as worker:
        refs = write.enqueue_many(range(2))
        eventually(lambda: len(worker.in_flight.queues) == 2)

    assert seen == []
    assert [str(ref.status()) for ref in refs] == ["waiting"] * 2


def test_a_pause_takes_back_what_waits_for_company(app, seen):
    @app.task(many=3, wait="2s")
    def write(rows: list[int]) -> None:
        seen.append(rows)

    with working(app) as worker:
        write.enqueue_many(range(2))
        eventually(lambda: len(worker.in_flight.queues) == 2)
        app.pause("write")
        eventually(lambda: len(worker.in_flight.queues) == 0)
        app.resume("write")
        eventually(lambda: seen)

    assert seen == [[0, 1]]


def test_a_drain_waits_for_nobody(app, seen):
    @app.task(many=3, wait="1h")
    def write(rows: list[int]) -> None:
        seen.append(rows)

    write.enqueue_many(range(4))
    app.drain()

    assert [len(rows) for rows in seen] == [3, 1]


def test_a_rate_counts_items_which_gather_at_their_moments(app, seen):
    @app.task(many=50, wait="300ms", rate="100/s")
    def write(rows: list[int]) -> None:
        seen.append(rows)

    with working(app):
        write.enqueue_many(range(60))
        eventually(lambda: sum(map(len, seen)) == 60)

    assert sorted(row for rows in seen for row in rows) == list(range(60))
    assert 2 <= len(seen) <= 12
