"""A handler that takes lists: one call for many tasks, each with an outcome of its own."""

from dataclasses import dataclass
from typing import TypedDict

import msgspec
import pytest

from tests.table import count, failures, task
from windlass import (
    BadArgument,
    Cancel,
    NoContext,
    Overloaded,
    Retry,
    Snooze,
    Status,
    TaskFailed,
    context,
)
from windlass.database.schema import task as table

pytestmark = pytest.mark.everywhere


@dataclass
class Row:
    code: str
    price: int = 0


@pytest.fixture
def seen():
    return []


def test_one_call_has_all_that_are_due_up_to_many(app, seen):
    @app.task(many=200)
    def write(rows: list[Row]) -> None:
        seen.append(rows)

    write.enqueue_many([Row(f"code-{number}", number) for number in range(450)])
    app.drain()

    assert [len(rows) for rows in seen] == [200, 200, 50]
    assert sorted(row.price for rows in seen for row in rows) == list(range(450))
    assert count(app, table) == 0


def test_an_async_handler_takes_lists_too(app, seen):
    @app.task(many=10)
    async def write(rows: list[int]) -> None:
        seen.append(rows)

    write.enqueue_many([1, 2, 3])
    app.drain()

    assert seen == [[1, 2, 3]]


class Price(TypedDict):
    code: str
    price: int


class Stock(msgspec.Struct):
    code: str


@pytest.mark.parametrize(
    ("annotation", "item"),
    [
        (Row, Row("a", 1)),
        (Price, {"code": "a", "price": 1}),
        (Stock, Stock("a")),
        (int, 7),
        (list[int], [1, 2]),
    ],
)
def test_an_item_is_what_the_list_is_annotated_with(app, seen, annotation, item):
    def write(items) -> None:
        seen.extend(items)

    write.__annotations__["items"] = list[annotation]
    handle = app.task(many=5)(write)

    handle.enqueue(item)
    app.drain()

    assert seen == [item]


def test_an_item_that_does_not_fit_is_refused_when_it_is_enqueued(app):
    @app.task(many=5)
    def write(rows: list[Row]) -> None: ...

    with pytest.raises(BadArgument, match=r"kind 'write': argument 'rows' is .*expected str"):
        write.enqueue(Row(7))

    assert count(app, table) == 0


def test_each_item_has_its_own_result(app):
    @app.task(many=5)
    def double(numbers: list[int]) -> list[int]:
        return [2 * number for number in numbers]

    refs = double.enqueue_many([1, 2, 3])
    app.drain()

    assert [ref.result() for ref in refs] == [2, 4, 6]


def test_each_item_may_be_answered_by_itself(app, clock):
    @app.task(many=9, keep="1d", retries=1, backoff="1h")
    def write(rows: list[int]) -> list[str | Exception | None]:
        answers = {
            0: None,
            1: Retry("busy", after="5m"),
            2: Cancel("gone"),
            3: Snooze("10m"),
            4: Overloaded(retry_after="7m"),
            5: ValueError("bad row"),
        }
        return [answers[row] for row in rows]

    refs = write.enqueue_many(range(6))
    began = clock.now()
    app.drain()

    assert [ref.status() for ref in refs] == [
        Status.SUCCEEDED,
        Status.WAITING,
        Status.CANCELLED,
        *[Status.WAITING] * 3,
    ]
    waits = [round((task(app, ref)["due_at"] - began) / 60e6) for ref in (refs[1], refs[3])]
    assert waits == [5, 10]
    assert task(app, refs[5])["remark"] == "ValueError: bad row"
    # Only what was retried has used a try.
    assert [task(app, ref)["attempt"] for ref in refs[1:]] == [1, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("signal", "status", "attempt"),
    [
        (Retry(after="5m"), Status.WAITING, 1),
        (Cancel("no"), Status.CANCELLED, 1),
        (Snooze("5m"), Status.WAITING, 0),
        (Overloaded(retry_after="5m"), Status.WAITING, 0),
    ],
)
def test_a_signal_that_is_raised_is_for_all_and_nothing_is_called_again(
    app, seen, signal, status, attempt
):
    @app.task(many=9, retries=3)
    def write(rows: list[int]) -> None:
        seen.append(rows)
        raise signal

    refs = write.enqueue_many([1, 2, 3])
    app.drain()

    assert seen == [[1, 2, 3]]
    assert [ref.status() for ref in refs] == [status] * 3
    assert {task(app, ref)["attempt"] for ref in refs} == {attempt}


@pytest.mark.parametrize(
    ("answer", "what"), [([None], "1 answers"), ([1, 2, 3, 4], "4 answers"), ({"a": 1}, "a dict")]
)
def test_an_answer_that_does_not_fit_the_list_fails_all_of_it(app, seen, answer, what):
    @app.task(many=9, retries=3)
    def write(rows: list[int]):
        seen.append(rows)
        return answer

    refs = write.enqueue_many([1, 2, 3])
    app.drain()

    assert seen == [[1, 2, 3]]
    for ref in refs:
        with pytest.raises(TaskFailed, match=f"the handler returned {what} for a list of 3"):
            ref.result()


def test_the_context_has_each_item_and_nothing_that_is_of_one(app, seen):
    @app.task(many=9, timeout="1m")
    def write(rows: list[int]) -> None:
        found = context()
        seen.append([(each.id, each.key, each.attempt, each.fence > 0) for each in found.items])
        assert found.kind == "write"
        assert found.deadline == found.items[0].deadline is not None
        for name in ("task_id", "key", "attempt", "fence", "due_at"):
            with pytest.raises(NoContext, match=rf"context\(\)\.{name} is of one task.*\.items"):
                getattr(found, name)

    refs = write.enqueue_many([1, 2], keys=["one", "two"])
    app.drain()

    assert seen == [[(refs[0].id, "one", 1, True), (refs[1].id, "two", 1, True)]]


def test_a_handler_of_single_tasks_has_one_item(app, seen):
    @app.task
    def write(row: int) -> None:
        seen.extend(each.id for each in context().items)

    ref = write.enqueue(1)
    app.drain()

    assert seen == [ref.id]


def test_what_an_item_writes_on_finish_is_committed_with_its_outcome(app):
    def fail(_connection):
        raise ValueError("not this one")

    @app.task(many=9, keep="1d")
    def write(rows: list[int]) -> None:
        with pytest.raises(NoContext, match="on_finish is of one task"):
            context().on_finish(fail)
        for row, item in zip(rows, context().items, strict=True):
            if row == 2:
                item.on_finish(fail)
            else:
                item.on_finish(lambda connection: later.using(conn=connection).enqueue())

    @app.task(keep="1d")
    def later() -> None: ...

    refs = write.enqueue_many([1, 2, 3])
    app.drain()

    assert [ref.status() for ref in refs] == [Status.SUCCEEDED, Status.FAILED, Status.SUCCEEDED]
    assert count(app, table.select().where(table.c.kind == "later").subquery()) == 2


def test_an_item_whose_arguments_do_not_fit_any_more_is_left_out(app, seen):
    @app.task(many=9, name="write")
    def write(rows: list[int]) -> None: ...

    ref = write.enqueue(7)
    bad = write.enqueue(8)
    with app.database.engine.begin() as connection:
        connection.execute(
            table.update().where(table.c.id == bad.id).values(payload='{"rows":"x"}')
        )

    app.registry.kinds.clear()

    @app.task(many=9, name="write")
    def again(rows: list[int]) -> None:
        seen.append((rows, [each.id for each in context().items]))

    app.drain()

    assert seen == [([7], [ref.id])]
    assert task(app, bad)["status"] == Status.WAITING
    assert "expected int" in task(app, bad)["remark"]


def test_higher_priorities_come_first_in_a_list(app, seen):
    @app.task(many=3)
    def write(rows: list[str]) -> None:
        seen.append(rows)

    for name, priority in (("low", -1), ("plain", 0), ("high", 9), ("middle", 5)):
        write.using(priority=priority).enqueue(name)
    app.drain(kinds=[write])

    assert seen == [["high", "middle", "plain"], ["low"]]


def test_a_list_has_no_more_of_a_lane_than_may_run_at_once(app, seen):
    @app.task(many=9, lane=lambda rows: rows[0])
    def write(rows: list[str]) -> None:
        seen.append(rows)

    for row in ("a1", "a2", "b1", "b2", "c1"):
        write.enqueue(row)
    app.drain()

    lanes = [[row[0] for row in rows] for rows in seen]
    assert all(len(set(names)) == len(names) for names in lanes)
    assert [row for rows in seen for row in rows if row[0] == "a"] == ["a1", "a2"]
    assert sorted(row for rows in seen for row in rows) == ["a1", "a2", "b1", "b2", "c1"]


def test_rolling_items_are_visited_in_lists(app, seen, clock):
    @app.rolling(every="1d", many=100)
    def visit(codes: list[str]) -> list[str | Exception]:
        seen.append(sorted(codes))
        return [ValueError("away") if code == "b" else f"seen {code}" for code in codes]

    visit.add(["a", "b", "c"], now=True)
    app.drain()

    assert seen == [["a", "b", "c"]]
    assert [visit.item(code).remark for code in "abc"] == ["seen a", "ValueError: away", "seen c"]
    assert visit.item("b").status is Status.FAILED


def test_a_caller_may_have_one_item_of_a_list_kind_visited(app, seen):
    @app.rolling(every="1d", many=100, wait="1h")
    def visit(codes: list[str]) -> list[str]:
        seen.append(codes)
        return ["here"] * len(codes)

    visit.add(["a", "b"])
    visited = visit.visit("b", timeout="20s")

    assert seen == [["b"]]
    assert visited.remark == "here"


def test_nodes_of_flows_run_in_lists(app, seen):
    @app.task(many=100)
    def double(numbers: list[int]) -> list[int]:
        seen.append(numbers)
        return [2 * number for number in numbers]

    @app.task
    def total(parts: list[int]) -> int:
        return sum(parts)

    @app.flow
    def both(flow) -> None:
        one, two = flow.add(double, 1), flow.add(double, 2)
        flow.add(total, [one.result, two.result], after=[one, two])

    run = both.start()
    app.drain()

    assert sorted(seen[0]) == [1, 2]
    assert {node.name: node.result for node in run.nodes()}["total"] == 6


def test_a_call_of_the_handle_calls_the_function(app):
    @app.task(many=5)
    def double(numbers: list[int]) -> list[int]:
        return [2 * number for number in numbers]

    assert double([1, 2]) == [2, 4]
    assert failures(app) == []
