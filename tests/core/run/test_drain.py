"""drain(): run what is due in this process, then stop; and how workers begin and end."""

import asyncio
import threading
import time

import pytest
from sqlalchemy import text

from tests.table import count, failures, task, tasks, workers
from tests.wait import eventually
from windlass import App, Retry, Status, WindlassError, context
from windlass.core.fetch.fetcher import LONGEST_PAUSE


def test_drain_never_waits_for_what_is_due_later(app):
    seen = []

    @app.task(retries=3, backoff="1h")
    def fail() -> None:
        seen.append(1)
        raise ValueError

    fail.enqueue()
    fail.using(delay="50ms").enqueue()
    began = time.monotonic()
    app.drain()

    assert time.monotonic() - began < 5
    assert len(seen) == 1
    assert [row["status"] for row in tasks(app)] == [Status.WAITING, Status.WAITING]


def test_drain_runs_what_becomes_due_while_it_drains(app):
    seen = []

    @app.task(retries=3)
    def again() -> None:
        seen.append(context().attempt)
        if len(seen) < 3:
            raise Retry(after="0s")

    again.enqueue()
    app.drain()

    assert seen == [1, 2, 3]


def test_drain_of_nothing_does_nothing(app):
    @app.task
    def work() -> None: ...

    app.drain()

    assert count(app) == 0
    (worker,) = workers(app)
    assert worker["left_at"] is not None


def test_an_app_without_kinds_can_drain(app):
    app.drain()

    assert count(app) == 0


async def test_drain_in_an_event_loop_says_what_to_use(app):
    @app.task
    def work() -> None: ...

    await work.aenqueue()

    with pytest.raises(WindlassError, match=r"await app\.adrain\(\)"):
        app.drain()

    assert count(app) == 1


async def test_adrain_runs_async_handlers_on_the_calling_loop(app):
    loops = []

    @app.task
    async def work() -> None:
        loops.append(asyncio.get_running_loop())

    await work.aenqueue()
    await app.adrain()

    assert loops == [asyncio.get_running_loop()]


def test_drain_leaves_rows_of_kinds_that_this_app_does_not_declare(app, database_url, clock):
    @app.task
    def mine() -> None: ...

    other = App(database_url, clock=clock)

    @other.task
    def theirs() -> None: ...

    ref = theirs.enqueue()
    mine.enqueue()
    app.drain()
    assert [row["kind"] for row in tasks(app)] == ["theirs"]

    other.drain()
    assert ref.status() is Status.SUCCEEDED
    other.close()


def test_a_rate_limited_kind_is_drained_to_its_end(app):
    seen = []

    @app.task(rate="40/s")
    def paced() -> None:
        seen.append(1)

    @app.task
    def other() -> None: ...

    paced.enqueue_many([{}] * 8)
    other.enqueue()
    app.drain()

    assert len(seen) == 8
    assert count(app) == 0


def test_drain_does_not_overlook_a_row_that_somebody_locks_for_a_moment(app):
    if app.database.dialect.name == "sqlite":
        pytest.skip("SQLite locks the whole database, and a worker waits for it")
    seen = []

    @app.task
    def work() -> None:
        seen.append(1)

    work.enqueue()
    with app.database.engine.connect() as connection:
        connection.execute(text("select id from windlass_task for update"))
        release = threading.Timer(0.3, connection.rollback)
        release.start()
        app.drain()
        release.join()

    assert seen == [1]


def test_an_app_drains_again_and_again(app):
    seen = []

    @app.task
    async def work(number: int) -> None:
        seen.append(number)

    for number in range(5):
        work.enqueue(number)
        app.drain()

    assert seen == [0, 1, 2, 3, 4]


def test_an_app_can_be_used_after_it_was_closed(app):
    seen = []

    @app.task
    def work() -> None:
        seen.append(1)

    work.enqueue()
    app.close()
    app.drain()

    assert seen == [1]


def test_two_drains_at_once_run_each_task_once(app, database_url, clock):
    lock, seen = threading.Lock(), []
    apps = [app, App(database_url, clock=clock)]

    def declare(one):
        @one.task
        def work(number: int) -> None:
            with lock:
                seen.append(number)

        return work

    work, _ = [declare(one) for one in apps]
    work.enqueue_many([{"number": number} for number in range(300)])
    threads = [threading.Thread(target=one.drain) for one in apps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    apps[1].close()

    assert sorted(seen) == list(range(300))
    assert count(app) == 0


async def run_until(worker, event):
    """Run a worker until `event` is set, then ask it to stop."""
    running = asyncio.create_task(worker.run())
    await asyncio.wait_for(event.wait(), 20)
    worker.stop()
    await asyncio.wait_for(running, 20)


async def test_a_stopping_worker_hands_back_an_async_run_without_counting_it(app):
    started = asyncio.Event()

    @app.task
    async def endless() -> None:
        started.set()
        await asyncio.sleep(60)

    app.set_grace("0s")
    ref = await endless.aenqueue()
    await run_until(app.worker(), started)

    row = task(app, ref)
    assert (row["status"], row["attempt"], row["lost"]) == (Status.WAITING, 0, 0)
    assert (row["batch"], row["worker"]) == (None, None)
    assert failures(app) == []


async def test_a_stopping_worker_hands_back_a_sync_run_that_cannot_be_stopped(app):
    started, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    seen = []

    @app.task
    def stuck() -> None:
        loop.call_soon_threadsafe(started.set)
        release.wait(20)
        seen.append(context().attempt)

    app.set_grace("0s")
    ref = await stuck.aenqueue()
    await run_until(app.worker(), started)
    assert task(app, ref)["status"] == Status.WAITING

    release.set()
    await app.adrain()

    assert await asyncio.to_thread(eventually, lambda: seen == [1, 1])
    assert count(app) == 0


async def test_a_stopping_worker_lets_what_runs_finish_within_its_grace(app):
    started, release = asyncio.Event(), asyncio.Event()

    @app.task(keep="1h")
    async def work() -> None:
        started.set()
        await release.wait()

    ref = await work.aenqueue()
    worker = app.worker()
    running = asyncio.create_task(worker.run())
    await asyncio.wait_for(started.wait(), 20)
    worker.stop()
    await asyncio.to_thread(worker.fetcher.join, 10)
    assert not running.done()
    release.set()
    await running

    assert await ref.astatus() is Status.SUCCEEDED


async def test_asked_twice_a_worker_stops_at_once(app):
    started = asyncio.Event()

    @app.task
    async def endless() -> None:
        started.set()
        await asyncio.sleep(60)

    ref = await endless.aenqueue()
    worker = app.worker()
    running = asyncio.create_task(worker.run())
    await asyncio.wait_for(started.wait(), 20)
    worker.stop()
    worker.stop()
    await asyncio.wait_for(running, 10)

    assert await ref.astatus() is Status.WAITING


async def test_a_stopped_worker_does_not_begin_what_it_had_claimed(app):
    started = asyncio.Event()
    began = []

    @app.task(concurrency=1)
    async def work() -> None:
        began.append(1)
        started.set()
        await asyncio.sleep(0.1)

    await work.aenqueue_many([{}] * 20)
    await run_until(app.worker(), started)

    assert len(began) == 1
    assert {(row["status"], row["attempt"]) for row in tasks(app)} == {(Status.WAITING, 0)}
    assert count(app) == 19


async def test_an_idle_worker_hears_an_enqueue_of_its_own_process_at_once(app):
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.task
    def work() -> None:
        loop.call_soon_threadsafe(done.set)

    worker = app.worker()
    running = asyncio.create_task(worker.run())
    # Idle for long, it looks once a second by itself.
    await asyncio.to_thread(eventually, lambda: worker.fetcher._pause == LONGEST_PAUSE)
    began = time.monotonic()
    await work.aenqueue()
    await asyncio.wait_for(done.wait(), 10)
    waited = time.monotonic() - began
    worker.stop()
    await running

    assert waited < 0.5


async def test_a_worker_says_how_it_is_doing(app):
    @app.task
    def work(number: int) -> None:
        if number == 0:
            raise ValueError

    await work.aenqueue_many([{"number": number} for number in range(5)])
    worker = app.worker(until_idle=True)
    await worker.run()

    pulse = worker.pulse()
    assert (pulse.done, pulse.failed, pulse.running, pulse.queued) == (5, 1, 0, 0)


@pytest.mark.timeout(30)
def test_drain_does_not_wait_for_a_rate_that_holds_nothing_back(app):
    seen = []

    @app.task(rate="10/h")
    def rare() -> None:
        seen.append(1)

    rare.enqueue()
    app.drain()

    assert seen == [1]
