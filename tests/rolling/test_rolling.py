"""Items of rolling kinds: added, hurried and removed, by the million and while they run."""

import time
from datetime import timedelta

import pytest
import sqlalchemy

from tests.rolling.stock import at, declare, run, together
from tests.table import count, tasks
from tests.wait import eventually
from windlass import (
    App,
    BadDeclaration,
    BadDuration,
    BadKey,
    BadSchedule,
    Cancel,
    Snooze,
    Status,
)
from windlass.rolling import engine

ODD = [
    "x" * 255,
    *["a", "A", "ä", "ä", "a b", " a", "a ", "0", "007", "🚢", "漢字", "it's", "%s :x", "\\"],
]
BAD = ["", "x" * 256, 7, None, b"x", "a\x00b", "\ud800", "windlass:mine"]


@pytest.fixture
def seen():
    return []


@pytest.fixture
def stock(app, seen):
    return declare(app, seen)


def test_a_new_item_is_visited_and_then_not_again_until_its_period_is_over(app, stock, seen, clock):
    assert stock.add(["a", "b"]) == 2
    app.drain()
    app.drain()
    assert sorted(seen) == ["a", "b"]

    clock.forward("9d23h")
    app.drain()
    assert len(seen) == 2

    clock.forward("1h")
    app.drain()
    assert sorted(seen) == ["a", "a", "b", "b"]


def test_an_item_that_was_never_visited_is_waiting(stock, clock):
    stock.add(["a"])

    item = stock.item("a")

    assert (item.code, item.status, item.remark) == ("a", Status.WAITING, None)
    assert (item.started_at, item.finished_at) == (None, None)
    assert item.due_at <= at(0)


def test_there_is_no_item_that_was_not_added(stock):
    stock.add(["a"])

    assert stock.item("A") is None
    assert stock.item("a ") is None


def test_adding_tells_how_many_were_new_and_changes_no_other(app, stock, seen):
    assert stock.add(["a", "b", "a"]) == 2
    app.drain()
    before = stock.item("b")

    assert stock.add(["b", "c", "b"]) == 1

    assert stock.item("b") == before
    app.drain()
    assert sorted(seen) == ["a", "b", "c"]
    assert stock.add([]) == 0


def test_adding_in_parts_counts_a_code_once(app, stock, monkeypatch):
    monkeypatch.setattr(engine, "ADD_AT_ONCE", 3)
    stock.add(["c", "f"])

    assert stock.add(["a", "b", "c", "a", "d", "b", "e", "f", "g", "a"]) == 5

    assert [row["task_key"] for row in by_key(app)] == list("abcdefg")
    assert stock.freshness().total == 7


def test_many_who_add_the_same_codes_at_once_add_them_once(app, stock, monkeypatch):
    monkeypatch.setattr(engine, "ADD_AT_ONCE", 50)
    codes = [f"code-{number}" for number in range(200)]

    added = together(
        lambda reverse: stock.add(sorted(codes, reverse=reverse)), [True, False, True, False]
    )

    assert sum(added) == 200
    assert count(app) == stock.freshness().total == 200


def test_a_generator_is_consumed_no_faster_than_it_is_stored(app, stock, monkeypatch):
    monkeypatch.setattr(engine, "ADD_AT_ONCE", 50)
    ahead = []

    def codes():
        for number in range(230):
            if number % 10 == 0:
                ahead.append(number - count(app))
            yield f"code-{number}"

    assert stock.add(codes()) == 230
    assert len(ahead) == 23
    assert max(ahead) <= 50


def test_a_generator_that_breaks_off_has_added_whole_parts_and_again_adds_the_rest(
    app, stock, monkeypatch
):
    monkeypatch.setattr(engine, "ADD_AT_ONCE", 50)

    def codes():
        for number in range(120):
            yield f"code-{number}"
        raise OSError("the file is gone")

    with pytest.raises(OSError, match="the file is gone"):
        stock.add(codes())
    assert count(app) == 100

    assert stock.add(f"code-{number}" for number in range(130)) == 30
    assert stock.freshness().total == 130


def test_removed_items_are_visited_no_more(app, stock, seen, clock):
    stock.add(["a", "b", "c"])

    assert stock.remove(["a", "a", "nobody"]) == 1
    assert stock.item("a") is None
    app.drain()
    assert stock.remove(code for code in ["b", "a"]) == 1
    clock.forward("10d")
    app.drain()

    assert sorted(seen) == ["b", "c", "c"]
    assert stock.freshness().total == 1


def test_removing_many_works_in_parts(app, stock, monkeypatch):
    monkeypatch.setattr(engine, "CHANGE_AT_ONCE", 7)
    stock.add(f"code-{number}" for number in range(100))

    assert stock.remove(f"code-{number}" for number in range(10, 200)) == 90

    assert stock.freshness().total == count(app) == 10


def test_an_item_that_is_added_again_after_it_was_removed_begins_anew(app, stock, seen):
    stock.add(["a"])
    app.drain()
    stock.remove(["a"])

    assert stock.add(["a"]) == 1
    assert stock.item("a").finished_at is None
    app.drain()

    assert seen == ["a", "a"]


def test_items_of_one_kind_are_not_those_of_another(app, stock, seen):
    @app.rolling(every="1h")
    def price(code: str) -> None:
        seen.append(f"price of {code}")

    assert stock.add(["a"]) == price.add(["a"]) == 1
    assert stock.remove(["a"]) == 1
    app.drain()

    assert seen == ["price of a"]
    assert stock.item("a") is None
    assert price.item("a").status is Status.SUCCEEDED


def test_codes_are_told_apart_byte_by_byte(app, stock, seen):
    assert stock.add(ODD) == len(ODD)
    assert stock.add(reversed(ODD), now=True) == 0
    app.drain()

    assert sorted(seen) == sorted(ODD)
    assert [stock.item(code).code for code in ODD] == ODD
    assert stock.remove(["a", "a "]) == 2
    assert [code for code in ODD if stock.item(code) is None] == ["a", "a "]


def test_a_code_that_cannot_be_one_is_refused_and_nothing_is_changed(app, stock):
    stock.add(["old"])

    for bad in BAD:
        with pytest.raises(BadKey):
            stock.add(["good", bad])
        with pytest.raises(BadKey):
            stock.remove(["old", bad])
        with pytest.raises(BadKey):
            stock.item(bad)

    assert [row["task_key"] for row in by_key(app)] == ["old"]


def test_what_is_not_a_list_of_codes_is_refused(app, stock):
    for given in ("abc", b"abc", 7, None):
        with pytest.raises(BadKey, match="is not a list of codes"):
            stock.add(given)
        with pytest.raises(BadKey, match="is not a list of codes"):
            stock.remove(given)

    assert count(app) == 0


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"every": "0s"}, BadDuration, "every"),
        ({"every": "soon"}, BadDuration, "every"),
        ({"every": "1d", "batch": 0}, BadDeclaration, "batch"),
        ({"every": "1d", "concurrency": 0}, BadDeclaration, "concurrency"),
        ({"every": "1d", "tick": "0s"}, BadDuration, "tick"),
        ({"every": "1d", "tick": "0 25 * * *"}, BadSchedule, "0 25"),
        ({"every": "1d", "tick": "at noon"}, BadSchedule, "tick"),
        ({"every": "1d", "retry_after": "x"}, BadDuration, "retry_after"),
    ],
)
def test_a_declaration_that_cannot_work_is_refused(options, error, says):
    app = App("sqlite://")

    with pytest.raises(error, match=says):
        declare(app, [], **options)

    assert app.registry.kinds == {}


def test_a_handler_must_take_a_code():
    app = App("sqlite://")

    with pytest.raises(BadDeclaration, match="def stock"):
        app.rolling(every="1d", name="stock")(lambda: None)
    with pytest.raises(BadDeclaration, match="code of an item"):

        @app.rolling(every="1d")
        def stock(code: int) -> None: ...


async def test_the_async_twins_do_the_same(app, stock, seen):
    assert await stock.aadd(["a", "b"]) == 2
    assert await stock.aadd(["a"], now=True) == 0
    assert await stock.aremove(["b"]) == 1
    await app.adrain()

    assert seen == ["a"]
    assert (await stock.aitem("a")).status is Status.SUCCEEDED
    assert (await stock.afreshness()).total == 1


def test_calling_a_rolling_kind_just_calls_the_function(app, stock, seen):
    stock("a")

    assert seen == ["a"]
    assert count(app) == 0
    assert stock.kind == "stock"


def test_items_added_now_are_visited_before_all_others(app, stock, seen):
    stock.add(f"old-{number}" for number in range(20))

    stock.add(["new", "old-17"], now=True)
    run(app, concurrency=1)

    assert sorted(seen[:2]) == ["new", "old-17"]
    assert len(seen) == 21


def test_an_item_that_is_not_due_is_hurried(app, stock, seen):
    stock.add(["a", "b"])
    app.drain()

    assert stock.add(["a", "c"], now=True) == 1
    app.drain()

    assert sorted(seen) == ["a", "a", "b", "c"]


def test_what_is_not_due_and_was_hurried_later_is_visited_first(app, stock, seen):
    stock.add(["a", "b", "c"])
    app.drain()
    seen.clear()
    for code in "abc":
        stock.add([code], now=True)

    run(app, concurrency=1)

    assert seen == ["c", "b", "a"]


def test_an_item_that_was_hurried_has_its_own_place_again_after_its_visit(app, stock, seen):
    stock.add(["a", "b"])
    stock.add(["b"], now=True)
    run(app, concurrency=1)

    assert seen == ["b", "a"]
    assert {row["priority"] for row in tasks(app)} == {0}


@pytest.mark.parametrize("is_there", [False, True])
def test_a_new_item_that_was_visited_while_it_was_hurried_is_visited_once(
    app, stock, seen, database_url, clock, is_there
):
    """Items are written by one transaction and hurried by the next one."""
    worker = App(database_url, clock=clock)
    declare(worker, seen)
    if is_there:
        # Then the page is not copied, but checked row by row.
        stock.add(["a"])
        app.drain()
        seen.clear()

    @sqlalchemy.event.listens_for(app.database.engine, "checkin")
    def between(_raw: object, _record: object) -> None:
        if not seen and count(worker) > is_there:
            worker.drain()

    assert stock.add(["a", "b"], now=True) == 2 - is_there
    sqlalchemy.event.remove(app.database.engine, "checkin", between)
    was_between = list(seen)
    app.drain()
    worker.close()

    assert was_between == (["b"] if is_there else ["a", "b"])
    assert sorted(seen) == ["a", "b"]


def test_hurrying_an_item_does_not_make_it_seem_late(app, stock, clock):
    stock.add(["a"])
    app.drain()

    stock.add(["a"], now=True)

    assert stock.freshness().overdue == 0
    assert stock.freshness().oldest_age < timedelta(seconds=1)


def be_written_down(app):
    """Run until the claim of what runs is in its row."""
    eventually(lambda: tasks(app, status=Status.RUNNING), what="a row that is marked as running")


def test_an_item_that_is_removed_while_it_runs_goes_when_its_visit_ends(app, clock):
    said = []

    @app.rolling(every="1h")
    def stock(code: str) -> str:
        be_written_down(app)
        said.append((code, stock.remove([code]), stock.remove([code]), stock.item(code)))
        said.append((stock.freshness().total, count(app)))
        return "the end"

    stock.add(["a"])
    app.drain()
    clock.forward("1h")
    app.drain()

    assert said == [("a", 1, 0, None), (0, 1)]
    assert count(app) == stock.freshness().total == 0


def test_a_removed_item_goes_however_its_visit_ends(app):
    ends = {"well": None, "badly": ValueError("no"), "later": Snooze("1h"), "not": Cancel("no")}

    @app.rolling(every="1h", retry_after="1s")
    def stock(code: str) -> None:
        stock.remove([code])
        if ends[code] is not None:
            raise ends[code]

    stock.add(ends)
    app.drain()

    assert count(app) == stock.freshness().total == 0


def test_an_item_that_is_removed_and_added_while_it_runs_is_visited_once(app, clock):
    seen = []

    @app.rolling(every="1h")
    def stock(code: str) -> None:
        seen.append(code)
        if len(seen) == 1:
            be_written_down(app)
            assert stock.remove([code]) == 1
            assert stock.add([code], now=True) == 1
            assert stock.item(code).status is Status.RUNNING

    stock.add(["a"])
    app.drain()
    item = stock.item("a")

    assert seen == ["a"]
    assert item.due_at == item.finished_at + timedelta(hours=1)
    assert count(app) == stock.freshness().total == 1


def test_an_item_that_is_removed_and_added_as_its_visit_begins_is_visited_again_after_it(app):
    running, seen = [], []

    @app.rolling(every="1h", concurrency=10)
    def stock(code: str) -> None:
        assert not running
        running.append(code)
        seen.append(code)
        if len(seen) == 1:
            assert stock.remove([code]) == 1
            assert stock.add([code]) == 1
            time.sleep(0.1)
        running.clear()

    stock.add(["a"])
    app.drain()

    assert seen == ["a", "a"]
    assert count(app) == stock.freshness().total == 1


def by_key(app):
    return sorted(tasks(app), key=lambda row: row["task_key"])
