"""One item, now: by a live worker, or by the caller under a written claim, and never twice."""

import asyncio
import threading
from contextlib import closing, contextmanager
from datetime import timedelta

import pytest

from tests.core.fetch.dead import Doomed, lose
from tests.rolling.stock import Guard, declare, serving, together
from tests.table import count, failures, tasks, workers
from tests.wait import eventually
from windlass import (
    App,
    BadDuration,
    BadKey,
    HeldBack,
    ItemNotFound,
    ResultTimeout,
    Status,
    context,
)
from windlass.rolling.operate.item import ItemVisit

pytestmark = pytest.mark.mostly("sqlite", "mariadb")


@pytest.fixture
def seen():
    return []


@pytest.fixture
def stock(app, seen):
    return declare(app, seen)


@pytest.fixture
def waiting(monkeypatch):
    """Set as soon as a visit waits for somebody else to end."""
    reached, wait = threading.Event(), ItemVisit.wait

    def spied(self, deadline):
        reached.set()
        return wait(self, deadline)

    monkeypatch.setattr(ItemVisit, "wait", spied)
    return reached


class Gate:
    """A handler that waits inside until the gate is opened."""

    def __init__(self, app, **options):
        self.guard = Guard()
        self._open = threading.Event()
        self.kind = app.rolling(**{"every": "10d", "name": "stock", **options})(self._pass)

    def _pass(self, code: str) -> str:
        self.guard.enter(code)
        assert self._open.wait(30)
        self.guard.leave(code)
        return "through"

    @contextmanager
    def closed(self):
        """Whoever comes waits until the block ends."""
        try:
            yield
        finally:
            self._open.set()

    def wait_until_inside(self, code):
        eventually(lambda: code in self.guard.inside, what=f"a visit of {code}")


class Call:
    """A call on a thread of its own."""

    def __init__(self, function, *args, **options):
        self._answers = []
        self._thread = threading.Thread(
            target=lambda: self._answers.extend(together(lambda _: function(*args, **options), [0]))
        )
        self._thread.start()

    def answer(self):
        self._thread.join(30)
        (answer,) = self._answers
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_without_a_worker_the_caller_runs_it_and_it_is_recorded_as_a_visit(app, clock):
    runs = []

    @app.rolling(every="10d")
    def stock(code: str) -> str:
        runs.append((code, context().key, context().attempt))
        return f"seen {code}"

    stock.add(["a", "b"])
    item = stock.visit("a")

    assert runs == [("a", "a", 1)]
    assert item == stock.item("a")
    assert (item.status, item.remark) == (Status.SUCCEEDED, "seen a")
    assert item.due_at == item.finished_at + timedelta(days=10)
    assert stock.item("b").status is Status.WAITING
    assert [row["left_why"] for row in workers(app)] == ["stopped"]
    app.drain()
    assert [code for code, *_ in runs] == ["a", "b"]


def test_a_visit_by_the_caller_counts_in_the_statistics(app, stock):
    stock.add(["a"])

    stock.visit("a")

    assert stock.freshness().actual_rate > 0


def test_an_item_that_is_fresh_is_not_visited(app, stock, seen, clock):
    stock.add(["a"])
    app.drain()
    before = stock.item("a")
    clock.forward("9m59s")

    assert stock.visit("a", fresh="10m") == before
    assert seen == ["a"]

    clock.forward("2s")
    assert stock.visit("a", fresh="10m").finished_at > before.finished_at
    assert seen == ["a", "a"]


def test_an_item_that_was_never_visited_is_not_fresh(stock, seen):
    stock.add(["a"])

    stock.visit("a", fresh="10d")
    stock.visit("a", fresh="10d")

    assert seen == ["a"]


def test_without_fresh_an_item_is_visited_each_time(stock, seen):
    stock.add(["a"])

    times = [stock.visit("a").finished_at for _ in range(3)]

    assert seen == ["a"] * 3
    assert times == sorted(set(times))


def test_a_failed_visit_is_as_fresh_as_any(app):
    @app.rolling(every="1d")
    def stock(code: str) -> None:
        raise ValueError("no such product")

    stock.add(["a"])
    item = stock.visit("a", fresh="1h")

    assert (item.status, item.remark) == (Status.FAILED, "ValueError: no such product")
    assert stock.visit("a", fresh="1h") == item
    assert len(failures(app)) == 1


def test_what_is_not_an_item_cannot_be_visited(app, stock, seen):
    stock.add(["a"])
    Doomed(app).take()
    stock.remove(["a"])

    with pytest.raises(ItemNotFound, match="'nobody'"):
        stock.visit("nobody")
    with pytest.raises(ItemNotFound, match="'a'"):
        stock.visit("a", fresh="1d")

    assert seen == []


def test_bad_arguments_are_refused(stock, seen):
    stock.add(["a"])

    with pytest.raises(BadKey):
        stock.visit("")
    with pytest.raises(BadDuration, match="fresh"):
        stock.visit("a", fresh="new")
    with pytest.raises(BadDuration, match="timeout"):
        stock.visit("a", timeout="0s")

    assert seen == []


def test_a_live_worker_runs_it(app, stock, seen):
    stock.add(["a"])
    with serving(app) as worker:
        eventually(lambda: stock.item("a").status is Status.SUCCEEDED)

        item = stock.visit("a")

        assert seen == ["a", "a"]
        assert item == stock.item("a")
        assert [row["id"] for row in workers(app)] == [worker.heartbeat.id]


def test_a_live_worker_of_another_program_runs_it(app, stock, seen, database_url, clock):
    ran = []
    with closing(App(database_url, clock=clock)) as other:
        declare(other, ran)
        stock.add(["a"])
        with serving(other):
            item = stock.visit("a")

    assert item.status is Status.SUCCEEDED
    assert (seen, set(ran)) == ([], {"a"})


def test_a_worker_for_other_kinds_does_not_count(app, stock, seen):
    @app.task
    def mail() -> None: ...

    stock.add(["a"])
    with serving(app, kinds=["mail"]):
        stock.visit("a")

        assert seen == ["a"]
        assert len(workers(app)) == 2


def test_a_live_worker_runs_it_ahead_of_a_large_backlog(app, waiting):
    gate = Gate(app)
    gate.kind.add(["blocks"], now=True)
    gate.kind.add(f"code-{number:04}" for number in range(1_000))
    with serving(app, concurrency=1):
        with gate.closed():
            gate.wait_until_inside("blocks")
            visiting = Call(gate.kind.visit, "code-0999")
            assert waiting.wait(20)
        item = visiting.answer()

    assert item.status is Status.SUCCEEDED
    # A few that the worker had claimed before may come first.
    assert gate.guard.visited.index("code-0999") < 20


def test_a_live_worker_does_not_wait_for_the_tick(app, seen):
    stock = declare(app, seen, tick="0 2 * * *")
    stock.add(["a", "b"])

    with serving(app):
        stock.visit("b")

    assert seen == ["b"]


def test_while_another_visit_runs_the_caller_waits_for_its_end(app, waiting):
    gate = Gate(app)
    gate.kind.add(["a"])
    with serving(app):
        with gate.closed():
            gate.wait_until_inside("a")
            visiting = Call(gate.kind.visit, "a", fresh="10d")
            assert waiting.wait(20)
        item = visiting.answer()

    assert (item.status, item.remark) == (Status.SUCCEEDED, "through")
    assert gate.guard.visited == ["a"]


def test_while_another_caller_runs_it_the_caller_waits_for_its_end(
    app, database_url, clock, waiting
):
    gate = Gate(app)
    gate.kind.add(["a"])
    with closing(App(database_url, clock=clock)) as other:
        elsewhere = declare(other, [])
        with gate.closed():
            first = Call(gate.kind.visit, "a")
            gate.wait_until_inside("a")
            second = Call(elsewhere.visit, "a")
            assert waiting.wait(20)
        items = [first.answer(), second.answer()]

    assert items[0] == items[1]
    assert items[0].remark == "through"
    assert gate.guard.visited == ["a"]


def test_callers_at_once_never_visit_one_item_at_the_same_time(app, database_url, clock):
    guard = Guard()

    def make(one):
        @one.rolling(every="10d")
        async def stock(code: str) -> None:
            guard.enter(code)
            await asyncio.sleep(0.001)
            guard.leave(code)

        return stock

    with closing(App(database_url, clock=clock)) as other:
        kinds = [make(app), make(other)] * 2
        kinds[0].add(["a"])
        items = together(lambda kind: kind.visit("a"), kinds)

    assert {getattr(item, "status", item) for item in items} == {Status.SUCCEEDED}
    assert guard.overlapped == []
    assert 1 <= len(guard.visited) <= 4
    assert count(app) == 1


def test_a_caller_takes_over_what_another_caller_gave_up(app, waiting):
    first_is_inside = threading.Event()

    @app.rolling(every="10d")
    async def stock(code: str) -> str:
        if not first_is_inside.is_set():
            first_is_inside.set()
            await asyncio.Event().wait()
        return "second"

    stock.add(["a"])
    hasty = Call(stock.visit, "a", timeout="1s")
    assert first_is_inside.wait(20)
    patient = Call(stock.visit, "a", timeout="6s")

    with pytest.raises(ResultTimeout):
        hasty.answer()
    assert patient.answer().remark == "second"


def test_a_visit_by_the_caller_that_takes_too_long_is_handed_back(app, seen):
    @app.rolling(every="10d")
    async def stock(code: str) -> None:
        if "it may end" not in seen:
            await asyncio.Event().wait()

    stock.add(["a"])
    with pytest.raises(ResultTimeout, match="'a' did not end in time"):
        stock.visit("a", timeout="200ms")
    seen.append("it may end")

    (row,) = tasks(app)
    assert (row["status"], row["batch"], row["attempt"]) == (Status.WAITING, None, 0)
    assert [row["left_why"] for row in workers(app)] == ["stopped"]
    app.drain()
    assert stock.item("a").status is Status.SUCCEEDED


def test_a_blocking_visit_by_the_caller_that_takes_too_long_goes_on_and_is_recorded(app):
    gate = Gate(app)
    gate.kind.add(["a"])

    with gate.closed():
        for _ in range(2):
            with pytest.raises(ResultTimeout, match="goes on and is recorded"):
                gate.kind.visit("a", timeout="200ms")
            eventually(lambda: gate.guard.inside == ["a"])
            assert gate.kind.item("a").status is Status.RUNNING

    eventually(lambda: gate.kind.item("a").status is Status.SUCCEEDED)
    assert gate.guard.inside == []


def test_a_visit_that_a_worker_is_slow_to_make_is_still_made(app, waiting):
    gate = Gate(app, concurrency=1)
    gate.kind.add(["a", "b", "c"])
    with serving(app):
        with gate.closed():
            gate.wait_until_inside("a")
            with pytest.raises(ResultTimeout, match="still asked for"):
                gate.kind.visit("c", timeout="100ms")
        eventually(lambda: gate.kind.item("c").status is Status.SUCCEEDED)


def test_an_item_that_is_removed_meanwhile_is_not_waited_for(app, waiting):
    gate = Gate(app, concurrency=1)
    gate.kind.add(["a"], now=True)
    with serving(app), gate.closed():
        gate.wait_until_inside("a")
        gate.kind.add(["b"])
        visiting = Call(gate.kind.visit, "b")
        assert waiting.wait(20)

        gate.kind.remove(["b"])

        with pytest.raises(ItemNotFound):
            visiting.answer()


async def test_a_visit_may_be_made_inside_a_running_event_loop(stock, seen):
    stock.add(["a"])

    assert stock.visit("a").status is Status.SUCCEEDED
    assert seen == ["a"]


async def test_an_async_handler_runs_on_the_loop_of_the_caller(app):
    loops = []

    @app.rolling(every="10d")
    async def stock(code: str) -> str:
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return "done"

    await stock.aadd(["a"])
    item = await stock.avisit("a")

    assert (item.status, item.remark) == (Status.SUCCEEDED, "done")
    assert loops == [asyncio.get_running_loop()]
    assert await stock.avisit("a", fresh="1h") == item


async def test_callers_on_one_loop_never_visit_one_item_at_the_same_time(app):
    guard = Guard()

    @app.rolling(every="10d")
    async def stock(code: str) -> None:
        guard.enter(code)
        await asyncio.sleep(0.001)
        guard.leave(code)

    await stock.aadd(["a", "b"])
    items = await asyncio.gather(*(stock.avisit(code) for code in "abab"))

    assert [item.code for item in items] == list("abab")
    assert {item.status for item in items} == {Status.SUCCEEDED}
    assert guard.overlapped == []


async def test_a_live_worker_also_serves_those_who_await(app, stock, seen):
    await stock.aadd(["a"])
    with serving(app) as worker:
        item = await stock.avisit("a")

        assert item.status is Status.SUCCEEDED
        assert [row["id"] for row in workers(app)] == [worker.heartbeat.id]


async def test_a_visit_that_is_cancelled_is_handed_back(app):
    inside = asyncio.Event()

    @app.rolling(every="10d")
    async def stock(code: str) -> None:
        inside.set()
        await asyncio.Event().wait()

    await stock.aadd(["a"])
    visiting = asyncio.create_task(stock.avisit("a"))
    await inside.wait()
    visiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await visiting

    (row,) = tasks(app)
    assert (row["status"], row["batch"]) == (Status.WAITING, None)
    assert [row["left_why"] for row in workers(app)] == ["stopped"]


async def test_an_awaited_visit_that_takes_too_long_is_handed_back(app):
    @app.rolling(every="10d")
    async def stock(code: str) -> None:
        await asyncio.Event().wait()

    await stock.aadd(["a"])
    with pytest.raises(ResultTimeout):
        await stock.avisit("a", timeout="200ms")

    assert (await stock.aitem("a")).status is Status.WAITING


@pytest.mark.parametrize("is_served", [True, False])
def test_an_item_of_a_paused_kind_is_not_visited(app, stock, seen, is_served):
    stock.add(["fresh"])
    app.drain()
    stock.add(["a"])
    app.pause("stock", reason="stocktaking")

    def check():
        with pytest.raises(HeldBack, match="stocktaking"):
            stock.visit("a")
        assert stock.visit("fresh", fresh="1h").status is Status.SUCCEEDED

    if is_served:
        with serving(app):
            check()
    else:
        check()

    assert seen == ["fresh"]
    app.resume("stock")
    assert stock.visit("a").status is Status.SUCCEEDED


@pytest.mark.parametrize("is_served", [True, False])
def test_while_the_window_is_closed_the_caller_runs_it(app, seen, is_served):
    stock = declare(app, seen, window="10:00-11:00")
    stock.add(["a", "b"])

    def check():
        assert stock.visit("a", timeout="10s").status is Status.SUCCEEDED

    if is_served:
        with serving(app):
            check()
    else:
        check()

    assert seen == ["a"]
    assert len(workers(app)) == 1 + is_served


def test_what_a_dead_worker_held_is_visited_by_the_caller(app, stock, seen):
    stock.add(["a"])
    lose(app)

    assert stock.visit("a", timeout="3s").status is Status.SUCCEEDED
    assert seen == ["a"]


def test_what_a_silent_worker_held_is_visited_by_the_caller(app, stock, seen, clock):
    stock.add(["a"])
    Doomed(app).take()
    clock.forward("1h")

    assert stock.visit("a", timeout="3s").status is Status.SUCCEEDED
    assert seen == ["a"]


def test_a_silent_worker_is_not_taken_for_a_live_one(app, stock, seen, clock):
    stock.add(["a"])
    Doomed(app)
    clock.forward("1h")

    assert stock.visit("a", timeout="5s").status is Status.SUCCEEDED
