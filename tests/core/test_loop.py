"""Loops: what is told of ticks that fail, and of loops that end."""

import asyncio

import pytest

from tests.core.run.working import listening, sql, working
from tests.wait import eventually
from windlass import App, WindlassError, telemetry
from windlass.core.loop import Loop
from windlass.core.ring import store as ring_store
from windlass.errors import DatabaseUnavailable


class Failing(Loop):
    """Fails once, then goes on."""

    name = "failing"

    def __init__(self, problem):
        super().__init__()
        self.problems = [problem]
        self.ticks = 0

    def tick(self):
        self.ticks += 1
        if self.problems:
            raise self.problems.pop()
        return 10.0


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (DatabaseUnavailable("away"), ["database.failed", "database.back"]),
        (ValueError("a mistake"), ["loop.failed"]),
        # They would end a thread without a word.
        (asyncio.CancelledError(), ["loop.failed"]),
        (SystemExit(1), ["loop.failed"]),
    ],
)
def test_only_a_database_that_was_away_is_told_to_be_back(problem, told):
    heard = []
    stop = telemetry.subscribe(lambda event: heard.append(event.name))
    loop = Failing(problem)

    loop.start()
    eventually(lambda: loop.ticks >= 2, what="a tick that succeeds")
    loop.stop()
    loop.join(5.0)
    stop()

    assert heard == told


def test_a_worker_that_has_ended_can_be_told_to_stop_again(app):
    worker = app.worker(until_idle=True)
    asyncio.run(worker.run())

    worker.stop()

    assert worker.is_stopping


def test_a_loop_that_ends_by_an_error_says_so():
    ended = []

    def end_thread(event):
        raise SystemExit(f"no event {event.name}")

    stop = telemetry.subscribe(end_thread)
    loop = Failing(ValueError("a mistake"))

    loop.start(on_death=lambda loop, problem: ended.append((loop, str(problem))))
    eventually(lambda: ended, what="the end of the loop")
    stop()

    assert ended == [(loop, "no event loop.failed")]
    assert loop.ticks == 1


def test_a_worker_whose_loop_ends_leaves_and_another_does_its_work(database_url):
    done = []
    app = App(database_url)

    @app.task
    async def note(number: int) -> None:
        done.append(number)

    def end_loop(event):
        if event.name == "database.failed" and event.fields.get("loop") == "switch":
            raise SystemExit(1)

    def work_until_it_leaves():
        with working(app) as worker:
            sql(app, "alter table windlass_switch rename to windlass_hidden")
            eventually(lambda: worker.left_cleanly, 20.0, what="a worker that has left")

    unsubscribe = telemetry.subscribe(end_loop)
    with (
        listening("worker.crashed", "worker.left") as heard,
        pytest.raises(WindlassError, match=r"'switch' of worker .* ended by SystemExit"),
    ):
        work_until_it_leaves()
    unsubscribe()
    sql(app, "alter table windlass_hidden rename to windlass_switch")

    assert {event.name for event in heard} == {"worker.crashed", "worker.left"}
    assert app.database.read(ring_store.workers) == []
    note.enqueue(1)
    with working(app):
        eventually(lambda: done == [1], what="the work of another worker")
    app.close()
