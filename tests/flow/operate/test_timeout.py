"""A flow run that takes longer than its timeout is ended."""

import pytest
from sqlalchemy import create_engine

from tests.table import count
from windlass import BadInput, Status
from windlass.watch.operate import status

HOUR = 3_600_000_000


@pytest.fixture
def order(app):
    """A flow whose second node waits for an hour, and what ran."""
    ran = []

    @app.task
    def pack() -> None:
        ran.append("pack")

    @app.task
    def send() -> None:
        ran.append("send")

    @app.task(retries=100, backoff="1h")
    def stuck() -> None:
        if "send" not in ran:
            raise ConnectionError("nobody answers")

    @app.flow(timeout="6h")
    def order(flow, last: bool = False):
        packed = flow.add(pack)
        waits = flow.add(stuck, after=packed)
        flow.add(send, after=waits)

    order.ran = ran
    return order


def states(run):
    return {node.name: str(node.status) for node in run.nodes()}


@pytest.mark.everywhere
def test_a_run_is_ended_when_its_timeout_is_over(app, clock, order):
    run = order.start()
    app.drain()
    clock.advance(6 * HOUR - 2_000_000)
    app.drain()
    assert run.status() is Status.RUNNING

    clock.advance(3_000_000)
    app.drain()

    assert run.status() is Status.FAILED
    assert app.flows.run(run.id).error == "timed out after 6h"
    assert states(run) == {"pack": "succeeded", "stuck": "cancelled", "send": "cancelled"}
    assert order.ran == ["pack"]


def test_a_run_that_ended_in_time_stays_as_it_is(app, clock, order):
    order.ran.append("send")
    run = order.start()
    app.drain()
    assert run.status() is Status.SUCCEEDED

    clock.advance(7 * HOUR)
    app.drain()

    assert run.status() is Status.SUCCEEDED


@pytest.mark.everywhere
def test_a_retry_gives_the_whole_timeout_again(app, clock, order):
    run = order.start()
    clock.advance(4 * HOUR)
    run.cancel("enough")
    run.retry()
    clock.advance(3 * HOUR)
    app.drain()
    assert run.status() is Status.RUNNING

    clock.advance(4 * HOUR)
    app.drain()
    assert run.status() is Status.FAILED

    order.ran.append("send")
    assert run.retry() == 2
    app.drain()
    assert run.status() is Status.SUCCEEDED


def test_a_delay_does_not_count(app, clock, order):
    run = order.using(delay="5h").start()
    clock.advance(10 * HOUR)
    app.drain()
    assert run.status() is Status.RUNNING

    clock.advance(2 * HOUR)
    app.drain()
    assert run.status() is Status.FAILED


def test_a_pause_does_not_stop_the_timeout(app, clock, order):
    run = order.start()
    app.pause()
    clock.advance(7 * HOUR)
    app.drain()

    assert run.status() is Status.FAILED


def test_a_start_that_is_rolled_back_leaves_no_timeout(app, order):
    app.prepare()
    engine = create_engine(app.database.url)
    with engine.connect() as connection:
        order.using(conn=connection).start()
        connection.rollback()
    engine.dispose()

    assert list(app.flows.runs()) == []
    assert count(app) == 0


def test_a_run_that_was_pruned_is_not_missed(app, clock, order):
    order.ran.append("send")
    order.start()
    app.drain()
    clock.advance(10 * 24 * HOUR)

    app.drain()

    assert not [each for each in app.alerts() if "flow" in each.name]


def test_a_key_that_is_started_twice_has_one_timeout(app, clock, order):
    first = order.using(key="order-7").start()
    clock.advance(3 * HOUR)
    assert order.using(key="order-7").start().id == first.id
    clock.advance(4 * HOUR)
    app.drain()

    assert first.status() is Status.FAILED


@pytest.mark.parametrize("timeout", ["soon", "0s", -1])
def test_a_timeout_that_is_none_is_refused(app, timeout):
    with pytest.raises(BadInput, match="timeout"):

        @app.flow(timeout=timeout)
        def order(flow): ...


def test_a_timed_out_run_counts_as_failed_in_the_statistics(app, clock, order):
    order.start()
    app.drain()
    clock.advance(7 * HOUR)
    app.drain()

    (kind,) = [each for each in status.look(app.fleet, app.registry).kinds if each.kind == "order"]
    assert (kind.done_last_hour, kind.failed_last_hour) == (0, 1)
