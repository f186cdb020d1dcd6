"""What a drain, or a worker, says about runs: texts that are enough under a plain basicConfig."""

import logging

import pytest

from windlass import Keys, Retry


def told(caplog, event):
    return [record for record in caplog.records if getattr(record, "event", None) == event]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_drain_says_what_failed_with_its_traceback(app, caplog, is_async):
    def fail():
        raise ConnectionError("refused\nby the server")

    if is_async:

        @app.task(retries=5, backoff="4s")
        async def send_mail() -> None:
            fail()

    else:

        @app.task(retries=5, backoff="4s")
        def send_mail() -> None:
            fail()

    ref = send_mail.enqueue()
    app.drain()

    (record,) = told(caplog, "task.retried")
    text = record.getMessage()
    assert text.startswith(
        f"task send_mail {ref.id} failed (attempt 1 of 6): ConnectionError: refused; next try in "
    )
    assert (record.levelname, record.task, record.kind) == ("WARNING", ref.id, "send_mail")
    assert (record.attempt, record.tries, record.most_tries) == (1, 1, 6)
    assert "by the server" in record.error
    shown = logging.Formatter().format(record)
    assert "in fail" in shown
    # The frames of Windlass that lead to the handler are of no use to its author.
    assert "windlass/core" not in shown
    assert "During handling of the above exception" not in shown


def test_the_last_failure_is_an_error(app, caplog):
    @app.task(retries=0)
    def send_mail() -> None:
        raise ValueError("no such address")

    ref = send_mail.enqueue()
    app.drain()

    (record,) = told(caplog, "task.failed")
    expected = f"task send_mail {ref.id} failed (attempt 1 of 1): ValueError: no such address"
    assert (record.levelname, record.getMessage()) == ("ERROR", expected)
    assert record.exc_info[1].args == ("no such address",)


def test_a_retry_that_was_asked_for_has_no_traceback(app, caplog):
    @app.task
    def send_mail() -> None:
        raise Retry(after="10s")

    send_mail.enqueue()
    app.drain()

    (record,) = told(caplog, "task.retried")
    assert record.exc_info is None


def test_a_failed_item_of_a_sweep_is_named_with_its_traceback(app, caplog):
    @app.sweep(Keys(1, 3), ranges=1)
    def offer(key: int) -> None:
        if key == 2:
            raise ValueError("not for sale")

    app.drain()

    (record,) = told(caplog, "range.set_aside")
    assert "1 items of sweep offer" in record.getMessage()
    assert "the first is 2: ValueError: not for sale" in record.getMessage()
    assert record.exc_info[1].args == ("not for sale",)


@pytest.mark.parametrize("is_async", [False, True])
def test_each_start_and_each_end_is_a_line_at_debug(app, caplog, is_async):
    caplog.set_level(logging.DEBUG, logger="windlass")
    if is_async:

        @app.task(retries=0)
        async def work(number: int) -> None:
            assert number

    else:

        @app.task(retries=0)
        def work(number: int) -> None:
            assert number

    good, bad = work.enqueue(1), work.using(key="zero").enqueue(0)
    app.drain()

    began = {record.task: record.getMessage() for record in told(caplog, "task.started")}
    ended = {record.task: record.getMessage() for record in told(caplog, "task.ended")}
    assert began[good.id] == f"task work {good.id} started (attempt 1)"
    assert began[bad.id] == f"task work {bad.id} (zero) started (attempt 1)"
    assert f"task work {good.id} ended after " in ended[good.id]
    assert "by AssertionError" in ended[bad.id]


def test_without_debug_no_run_is_observed(app):
    @app.task
    def work() -> None: ...

    worker = app.worker()

    assert {load.observer for load in worker.in_flight.loads.values()} == {None}
