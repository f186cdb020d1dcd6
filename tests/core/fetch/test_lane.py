"""Rows of one lane run one after the other, in the order of their due times."""

import asyncio
import threading

import pytest

from tests.table import count, task
from windlass import Retry, Snooze, Status
from windlass.clock import SECOND, to_datetime
from windlass.core.fetch.lane import LaneRow, claim_rows
from windlass.database.dialect.base import Stamp
from windlass.operate.task import operate


def run(app, **settings):
    asyncio.run(app.worker(until_idle=True, **settings).run())


@pytest.fixture
def seen():
    return []


@pytest.fixture
def note(app, seen):
    @app.task
    def note(name: str) -> None:
        seen.append(name)

    return note


@pytest.mark.everywhere
def test_rows_of_a_lane_run_in_the_order_in_which_they_were_enqueued(app, note, seen):
    names = [f"{lane}{number}" for number in range(8) for lane in "abc"]
    for name in names:
        note.using(lane=name[0]).enqueue(name)
    note.enqueue("x")

    run(app, concurrency=10)

    assert sorted(seen) == sorted([*names, "x"])
    for lane in "abc":
        assert [name for name in seen if name[0] == lane] == [f"{lane}{n}" for n in range(8)]
    assert count(app) == 0


@pytest.mark.everywhere
def test_claims_keep_the_order_of_the_rows_whatever_the_database_answers(app, note):
    ids = [note.using(lane="a").enqueue(str(number)).id for number in range(4)]
    wanted = [ids[2], ids[0], ids[3], ids[1]]

    def claim(connection):
        dialect = app.database.dialect
        found = [
            LaneRow(columns, lost, batch, place)
            for *columns, lost, batch, place in dialect.laned(connection, ids)
        ]
        found.sort(key=lambda row: wanted.index(row.id))
        return claim_rows(connection, dialect, found, Stamp(7, 1, 1, 2))

    assert [row.id for row in app.database.write(claim)] == wanted


def test_many_rows_get_their_lanes_from_the_declaration(app, seen):
    @app.task(lane=lambda name: name[0] if name[0] != "x" else None)
    def note(name: str, times: int = 1) -> None:
        seen.append(name)

    refs = note.enqueue_many([{"name": f"{lane}{n}"} for n in range(100) for lane in "abx"])
    lanes = {task(app, ref)["lane"] for ref in refs}
    app.drain()

    assert lanes == {"a", "b", None}
    assert [name for name in seen if name[0] == "a"] == [f"a{n}" for n in range(100)]
    assert len(seen) == 300


def test_using_goes_before_the_declaration(app):
    @app.task(lane=lambda name: name)
    def note(name: str) -> None: ...

    assert task(app, note.using(lane="other").enqueue("a"))["lane"] == "other"


@pytest.mark.everywhere
@pytest.mark.parametrize(("per_lane", "most"), [(1, 1), (3, 3)])
def test_no_more_than_per_lane_run_at_once(app, per_lane, most):
    lock, inside, crowds, all_in = threading.Lock(), [], [], threading.Event()

    @app.task(lane=lambda number: "only", per_lane=per_lane)
    def work(number: int) -> None:
        with lock:
            inside.append(number)
            crowds.append(len(inside))
            if len(inside) == most:
                all_in.set()
        assert all_in.wait(20)
        with lock:
            inside.remove(number)

    work.enqueue_many([{"number": number} for number in range(12)])
    run(app, concurrency=10)

    assert max(crowds) == most
    assert len(crowds) == 12


@pytest.mark.everywhere
def test_a_row_that_waits_for_its_retry_holds_its_lane(app, clock, seen):
    @app.task(retries=1, backoff="10s", lane=lambda name: "one")
    def work(name: str) -> None:
        seen.append(name)
        if name == "a" and seen.count("a") == 1:
            raise Retry(after="10s")

    for name in "abc":
        work.enqueue(name)
    app.drain()
    assert seen == ["a"]

    clock.forward("11s")
    app.drain()

    assert seen == ["a", "a", "b", "c"]


def test_a_row_that_failed_for_good_no_longer_holds_its_lane(app, clock, seen):
    @app.task(retries=1, backoff="1s", lane=lambda name: "one")
    def work(name: str) -> None:
        seen.append(name)
        if name == "a":
            raise ValueError("never")

    first, _ = work.enqueue("a"), work.enqueue("b")
    app.drain()
    clock.forward("5s")
    app.drain()

    assert seen == ["a", "a", "b"]
    assert first.status() is Status.FAILED


@pytest.mark.everywhere
def test_with_pass_the_rows_behind_a_failing_one_go_on(app, clock, seen):
    @app.task(retries=1, backoff="10s", lane=lambda name: "one", on_failure="pass")
    def work(name: str) -> None:
        seen.append(name)
        if name == "a" and seen.count("a") == 1:
            raise ValueError("not now")

    for name in "abc":
        work.enqueue(name)
    app.drain()
    clock.forward("20s")
    app.drain()

    assert seen == ["a", "b", "c", "a"]


def test_a_snooze_gives_up_the_place_of_a_row_that_has_not_failed(app, clock, seen):
    @app.task(lane=lambda name: "one")
    def work(name: str) -> None:
        seen.append(name)
        if seen == ["a"]:
            raise Snooze("10s")

    for name in "ab":
        work.enqueue(name)
    app.drain()
    clock.forward("11s")
    app.drain()

    assert seen == ["a", "b", "a"]


def test_a_row_that_is_retried_by_an_operator_takes_its_place_by_its_new_due_time(app, clock, seen):
    is_broken = [True]

    @app.task(retries=0, lane=lambda name: "one")
    def work(name: str) -> None:
        seen.append(name)
        if name == "a" and is_broken:
            raise ValueError("broken")

    failed = work.enqueue("a")
    app.drain()
    is_broken.clear()
    work.enqueue("b")
    clock.forward("1s")
    operate.retry(app.fleet, failed.id)
    clock.forward("1s")
    work.enqueue("c")
    app.drain()

    assert seen == ["a", "b", "a", "c"]


def test_within_a_lane_the_due_time_decides_and_not_the_priority(app, clock, note, seen):
    note.using(lane="one", delay="2s").enqueue("third")
    note.using(lane="one", delay="1s").enqueue("second")
    note.using(lane="one").enqueue("first")
    note.using(lane="one", priority=9, delay="3s").enqueue("fourth")
    clock.forward("10s")

    app.drain()

    assert seen == ["first", "second", "third", "fourth"]


def test_a_row_that_was_committed_late_with_an_earlier_due_time_goes_first(app, clock, seen):
    begun, go_on = threading.Event(), threading.Event()

    @app.task(lane=lambda name: "one")
    def slow(name: str) -> None:
        seen.append(name)
        if name == "running":
            begun.set()
            assert go_on.wait(20)

    at = clock.now()
    slow.enqueue("running")
    clock.advance(SECOND // 2)
    slow.enqueue("later")
    worker = threading.Thread(target=run, args=(app,))
    worker.start()
    assert begun.wait(20)
    slow.using(at=to_datetime(at + 1)).enqueue("earlier")
    go_on.set()
    worker.join()

    assert seen == ["running", "earlier", "later"]


def test_a_key_and_a_lane_go_together_in_one_database(app, note, seen):
    first = note.using(key="k", lane="one").enqueue("a")
    again = note.using(key="k", lane="one").enqueue("b")

    app.drain()

    assert again == first
    assert seen == ["a"]


def test_a_lane_that_is_never_free_does_not_stop_others(app, seen):
    @app.task(lane=lambda name: name.split("-")[0], retries=1, backoff="1h")
    def work(name: str) -> None:
        seen.append(name)
        if name == "big-0":
            raise ValueError("later")

    work.enqueue_many([{"name": f"big-{number}"} for number in range(300)])
    work.enqueue_many([{"name": f"{number}-small"} for number in range(50)])
    app.drain()

    assert seen.count("big-0") == 1
    assert sorted(seen) == sorted(["big-0", *(f"{number}-small" for number in range(50))])


def test_fair_lanes_take_turns(app, seen):
    @app.task(lane=lambda name: name[0], fair=True)
    async def work(name: str) -> None:
        seen.append(name[0])

    for lane, rows in (("a", 40), ("b", 10), ("c", 10)):
        work.enqueue_many([{"name": f"{lane}{number}"} for number in range(rows)])
    run(app, concurrency=1)

    for turn in range(1, 10):
        begun = seen[: 3 * turn]
        assert all(turn - 1 <= begun.count(lane) <= turn + 1 for lane in "abc")
    assert seen.count("a") == 40


def test_lanes_that_are_not_fair_run_by_due_time(app, seen):
    @app.task(lane=lambda name: name[0])
    async def work(name: str) -> None:
        seen.append(name[0])

    for lane, rows in (("a", 5), ("b", 5)):
        work.enqueue_many([{"name": f"{lane}{number}"} for number in range(rows)])
    run(app, concurrency=1)

    assert sorted(seen) == ["a"] * 5 + ["b"] * 5
    assert seen[0] == "a"
