"""What goes wrong in one place holds up nothing in another."""

import threading

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from tests.core.limit.service import Service, begin, declare, fail, state
from tests.core.run.working import working
from tests.table import count, tasks
from tests.wait import eventually
from windlass import Status
from windlass.core.limit.gate import Allowed
from windlass.value.breaker import BreakerState


def test_a_row_that_somebody_else_holds_keeps_no_other_outcome_waiting(app, database_engine):
    if database_engine == "sqlite":
        pytest.skip("SQLite locks the whole database, and everybody waits for it")
    is_inside, may_go_on = threading.Event(), threading.Event()

    @app.rolling(every="10d")
    def stock(code: str) -> None:
        is_inside.set()
        assert may_go_on.wait(30)

    @app.task
    def other() -> None: ...

    stock.add(["a"])
    # Not by the app's own connections: those may not rest inside a transaction.
    others = create_engine(app.database.url)
    with working(app), others.connect() as user, user.begin():
        assert is_inside.wait(20)
        (row,) = tasks(app, kind="stock")
        lock = text("select id from windlass_task where id = :id for update")
        user.execute(lock, {"id": row["id"]})
        may_go_on.set()
        other.enqueue_many([{}] * 20)

        eventually(lambda: tasks(app, kind="other") == [])
        assert stock.item("a").finished_at is None
        user.rollback()
        eventually(lambda: stock.item("a").status is Status.SUCCEEDED)
    others.dispose()


def test_a_run_that_somebody_else_holds_keeps_no_other_outcome_waiting(app, database_engine):
    if database_engine == "sqlite":
        pytest.skip("SQLite locks the whole database, and everybody waits for it")
    is_inside, may_go_on = threading.Event(), threading.Event()

    @app.task
    def step() -> None:
        is_inside.set()
        assert may_go_on.wait(30)

    @app.task
    def other() -> None: ...

    @app.flow
    def single(flow):
        flow.add(step)

    run = single.start()
    others = create_engine(app.database.url)
    with working(app), others.connect() as user, user.begin():
        assert is_inside.wait(20)
        lock = text("select id from windlass_task where id = :id for update")
        user.execute(lock, {"id": run.id})
        other.enqueue_many([{}] * 20)
        may_go_on.set()

        eventually(lambda: tasks(app, kind="other") == [])
        assert not run.status().is_final
        user.rollback()
        eventually(lambda: run.status() is Status.SUCCEEDED)
    others.dispose()


class Broken:
    """A gate that lets everything through but one kind, about which it fails."""

    def __init__(self, kind):
        self._kind = kind

    def is_free(self, kind):
        return True

    def allow(self, kind, wanted):
        if kind == self._kind:
            raise OperationalError("select", {}, Exception("the server is away"))
        return Allowed(wanted)

    def took(self, kind, allowed, taken):
        pass

    def seconds_until(self, kinds):
        return None


def test_what_was_claimed_is_run_though_the_claim_of_another_kind_fails(app, clock):
    @app.task
    def alpha() -> None: ...

    @app.task
    def zeta() -> None: ...

    alpha.enqueue()
    zeta.enqueue()
    worker = begin(app)
    claims = worker.fetcher._claims
    claims.tend()
    claims._gate = Broken("zeta")

    taken = claims.take(worker.in_flight.capacity.room())

    assert [task.kind for task in taken.tasks] == ["alpha"]
    with pytest.raises(OperationalError):
        claims.take(worker.in_flight.capacity.room())


def test_a_probe_whose_claim_failed_is_tried_again_later(app, clock, monkeypatch):
    service = Service()
    work = declare(app, service)
    fail(app, work)
    work.enqueue()
    clock.forward("1m")
    worker = begin(app)
    claims = worker.fetcher._claims
    claims.tend()
    with monkeypatch.context() as patch:
        patch.setattr(claims, "_take_tier", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            claims.take(worker.in_flight.capacity.room())
    assert state(app) is BreakerState.PROBING

    clock.forward("2m")
    taken = claims.take(worker.in_flight.capacity.room())

    assert [task.id for task in taken.tasks] == list(taken.marks.probes) != []


def test_items_whose_answer_was_lost_are_counted_once(app, database_engine, monkeypatch):
    if database_engine == "sqlite":
        pytest.skip("SQLite is in this process: no answer gets lost")

    @app.rolling(every="10d")
    def stock(code: str) -> None: ...

    stock.add(["before"])
    lose_the_next_answer(app, monkeypatch)

    added = stock.add(f"item-{number}" for number in range(500))

    assert added == 500
    assert len(tasks(app)) == 501
    assert tallied(app) == 501


def lose_the_next_answer(app, monkeypatch):
    """Commit the next transaction that adds items, and say that it failed."""
    genuine = app.database._in_transaction
    is_lost = []

    def lose(work):
        answer = genuine(work)
        if not is_lost and count(app) > 1:
            is_lost.append(True)
            problem = OperationalError("commit", {}, Exception("server closed the connection"))
            problem.connection_invalidated = True
            raise problem
        return answer

    monkeypatch.setattr(app.database, "_in_transaction", lose)


def tallied(app):
    with app.database.engine.connect() as connection:
        return connection.scalar(text("select sum(delta) from windlass_tally"))
