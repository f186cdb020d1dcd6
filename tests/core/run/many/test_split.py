"""A list that fails as a whole is called again in halves, so that a bad item costs only itself."""

import threading

import pytest

from tests.core.run.working import working
from tests.table import failures, task
from tests.wait import eventually
from windlass import Cancel, Status, context
from windlass.database.schema import task as table
from windlass.database.schema import worker

pytestmark = pytest.mark.everywhere


@pytest.fixture
def seen():
    return []


def test_one_bad_item_fails_alone_and_costs_no_other_a_try(app, seen):
    @app.task(many=64, keep="1d")
    def write(rows: list[int]) -> None:
        seen.append(rows)
        if 13 in rows:
            raise ValueError("thirteen")

    refs = write.enqueue_many(range(64))
    app.drain()

    by_status = {ref.id: task(app, ref) for ref in refs}
    failed = [row for row in by_status.values() if row["status"] == Status.FAILED]
    assert [row["id"] for row in failed] == [refs[13].id]
    assert {row["attempt"] for row in by_status.values()} == {1}
    assert len(failures(app)) == 1
    # The halves of 64, and the other half of each.
    assert sorted(len(rows) for rows in seen if 13 in rows) == [1, 2, 4, 8, 16, 32, 64]
    assert len(seen) == 13


def test_all_items_fail_by_themselves_if_all_are_bad(app, seen):
    @app.task(many=8, retries=2, backoff="1h")
    async def write(rows: list[int]) -> None:
        seen.append(rows)
        raise ValueError(f"bad {rows}")

    refs = write.enqueue_many(range(5))
    app.drain()

    assert {task(app, ref)["remark"] for ref in refs} == {
        f"ValueError: bad [{n}]" for n in range(5)
    }
    assert {task(app, ref)["attempt"] for ref in refs} == {1}
    assert len(seen) == 2 * 5 - 1


def test_a_breaker_stops_a_list_whose_items_all_fail(app, seen):
    @app.task(many=64, retries=3, breaker="3 in a row, 1h")
    def write(rows: list[int]) -> None:
        seen.append(rows)
        raise ConnectionError("away")

    refs = write.enqueue_many(range(64))
    app.drain()

    # Those that had started when it opened are the rest.
    assert sum(len(rows) == 1 for rows in seen) < 64
    assert any(each.remark for each in [app.find(ref.id) for ref in refs])


def test_a_list_that_times_out_is_called_again_in_halves(app, seen):
    release = threading.Event()

    @app.task(many=4, timeout="100ms", keep="1d")
    def write(rows: list[int]) -> None:
        seen.append(rows)
        if 3 in rows:
            release.wait(30)

    refs = write.enqueue_many(range(4))
    app.drain()
    release.set()

    assert [ref.status() for ref in refs] == [*[Status.SUCCEEDED] * 3, Status.FAILED]
    assert "TimeoutError: the handler did not end within 0.1 s" in task(app, refs[3])["remark"]
    assert sorted(map(len, seen)) == [1, 1, 2, 2, 4]


def test_items_with_an_answer_are_not_called_again_when_others_do_not_fit(app, seen):
    @app.task(many=4, keep="1d")
    def write(rows: list[int]) -> list[Exception | None]:
        seen.append(rows)
        return [Cancel("even") if row % 2 == 0 else None for row in rows]

    refs = write.enqueue_many(range(4))
    app.drain()

    assert seen == [[0, 1, 2, 3]]
    done, cancelled = Status.SUCCEEDED, Status.CANCELLED
    assert [ref.status() for ref in refs] == [cancelled, done, cancelled, done]


def test_a_cancelled_item_does_not_stop_the_others_of_its_list(app):
    begun, release = threading.Event(), threading.Event()

    @app.task(many=4, keep="1d")
    def write(rows: list[int]) -> None:
        begun.set()
        release.wait(30)

    refs = write.enqueue_many(range(3))
    with working(app):
        assert begun.wait(20)
        assert refs[1].cancel("not wanted")
        release.set()
        eventually(lambda: refs[0].status() is refs[2].status() is Status.SUCCEEDED)

    assert refs[1].status() is Status.CANCELLED


def test_a_long_list_is_claimed_item_by_item_and_a_stopped_worker_returns_all(app, seen):
    begun = threading.Event()

    @app.task(many=4, keep="1d")
    def write(rows: list[int]) -> None:
        if not seen:
            seen.append(rows)
            begun.set()
            threading.Event().wait(2)

    refs = write.enqueue_many(range(3))
    app.set_grace("0s")
    with working(app):
        assert begun.wait(20)
        eventually(lambda: all(task(app, ref)["batch"] is not None for ref in refs))

    assert {(task(app, ref)["status"], task(app, ref)["attempt"]) for ref in refs} == {(0, 0)}
    app.drain()
    assert {ref.status() for ref in refs} == {Status.SUCCEEDED}


@pytest.mark.parametrize(("lost", "longest"), [(1, 4), (2, 1)])
def test_rows_that_were_lost_with_a_worker_run_in_shorter_lists_and_at_last_alone(
    app, clock, seen, lost, longest
):
    @app.task(many=8, keep="1d", max_lost=3)
    def write(rows: list[int]) -> None:
        seen.append((len(rows), context().items[0].attempt))

    refs = write.enqueue_many(range(6))
    leave_behind(app, refs, lost=lost)
    app.drain()

    assert {ref.status() for ref in refs} == {Status.SUCCEEDED}
    assert max(length for length, _ in seen) == longest


def leave_behind(app, refs, *, lost):
    """Rows that a dead worker was running, which were lost so often before that."""
    now = app.clock.now()
    with app.database.engine.begin() as connection:
        values = {
            "id": 1,
            "host": "gone",
            "pid": 1,
            "token": 0,
            "lease_until": now - 1,
            "idle": 0,
            "joined_at": now - 2,
            "left_at": now - 1,
            "left_why": "it died",
            "kinds": "[]",
        }
        connection.execute(worker.insert().values(values))
        connection.execute(
            table.update()
            .where(table.c.id.in_([ref.id for ref in refs]))
            .values(status=1, batch=7, worker=1, lost=lost - 1, attempt=lost, due_at=now - 1)
        )
