"""A list is one run for concurrency and permits, and its items are counted for statistics."""

import threading

import pytest

from tests.core.run.working import working
from tests.table import count
from tests.wait import eventually
from windlass import BadDeclaration, BadInput, Keys
from windlass.database.schema import stat


@pytest.fixture
def seen():
    return []


@pytest.fixture
def busy():
    """How many calls run at once, and the most so far."""

    class Busy:
        now = most = 0
        lock = threading.Lock()

        def __enter__(self):
            with self.lock:
                self.now += 1
                self.most = max(self.most, self.now)

        def __exit__(self, *_):
            with self.lock:
                self.now -= 1

    return Busy()


@pytest.mark.parametrize("option", ["concurrency", "total_concurrency", "downstream"])
def test_a_list_is_one_call_for_every_limit(app, seen, busy, option):
    limits = {option: 2}
    if option == "downstream":
        limits = {"downstream": app.downstream("book", concurrency=2)}

    @app.task(many=10, **limits)
    def write(rows: list[int]) -> None:
        with busy:
            seen.append(rows)
            threading.Event().wait(0.05)

    write.enqueue_many(range(80))
    with working(app):
        eventually(lambda: sum(map(len, seen)) == 80, timeout=20)

    assert busy.most == 2
    assert len(seen) <= 16


def test_a_worker_with_one_slot_runs_full_lists(app, seen):
    @app.task(many=25)
    def write(rows: list[int]) -> None:
        seen.append(rows)

    write.enqueue_many(range(100))
    with working(app, concurrency=1):
        eventually(lambda: sum(map(len, seen)) == 100)

    assert [len(rows) for rows in seen] == [25] * 4


def test_the_statistics_count_items(app):
    @app.task(many=10)
    def write(rows: list[int]) -> list[Exception | None]:
        return [ValueError("bad") if row == 3 else None for row in rows]

    write.enqueue_many(range(10))
    app.drain()

    with app.database.engine.connect() as connection:
        row = connection.execute(stat.select().where(stat.c.kind == "write")).one()
    assert (row.done, row.failed) == (9, 1)
    assert count(app) == 1


def test_a_middleware_is_around_the_whole_list(app):
    around = []

    @app.middleware
    def note(call, found):
        around.append((found.stage, found.task_id, [each.args for each in found.calls]))
        return call()

    @app.task(many=10)
    def write(rows: list[int]) -> list[int]:
        return rows

    refs = write.enqueue_many([1, 2], keys=["a", "b"])
    app.drain()

    assert around == [("enqueue", None, [(1,), (2,)]), ("run", None, [(1,), (2,)])]
    assert [ref.result() for ref in refs] == [1, 2]


def single(_row: int) -> None: ...


def two(rows: list[int], other: int) -> None: ...


def no_list(row: int) -> None: ...


def items(rows: list[int]) -> None: ...


@pytest.mark.parametrize(
    ("function", "options", "why"),
    [
        (items, {"many": 0}, r"many=0 is not a number from 1 to 10,000"),
        (items, {"many": True}, r"many=True is not a number"),
        (items, {"many": 10_001}, r"many=10001 is not a number from 1 to 10,000"),
        (items, {"wait": "20ms"}, r"wait='20ms' is how long a list waits for company; give many="),
        (items, {"many": 5, "wait": "soon"}, r"kind 'items': wait"),
        (items, {"many": 5, "logs": 10}, r"many= and logs= cannot be combined"),
        (items, {"many": 5, "max_lost": 1}, r"with max_lost=1 one item that kills its worker"),
        (two, {"many": 5}, r"takes one argument, the list of items; write def two\(items: list"),
        (no_list, {"many": 5}, r"annotated <class 'int'>; write list\[\.\.\.\]"),
    ],
)
def test_a_declaration_that_makes_no_sense_names_the_cure(app, function, options, why):
    with pytest.raises(BadInput, match=why):
        app.task(**options)(function)


def test_crons_and_sweeps_say_why_they_have_no_such_options(app):
    with pytest.raises(BadDeclaration, match=r"cron: many=5 is not an option; a cron has one row"):
        app.cron("0 3 * * *", many=5)(single)
    with pytest.raises(BadDeclaration, match=r"sweep: wait='1s' is not an option; a sweep reads"):
        app.sweep(Keys(1, 9), wait="1s")(single)
