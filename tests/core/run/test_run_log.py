"""What a handler logs is kept with its run, within bounds."""

import asyncio
import logging

import pytest
from sqlalchemy import select

from tests.table import count, task
from windlass import BadDeclaration, Cancel, Status
from windlass.core.finish import store
from windlass.core.run.log import LARGEST_LOG
from windlass.database.schema import run_log
from windlass.operate.task import operate

log = logging.getLogger("shop.mail")


@pytest.fixture(autouse=True)
def info(caplog):
    caplog.set_level(logging.INFO)


def logs(app, ref, **options):
    return operate.logs_of(app.fleet, ref.id, **options).runs


def texts(run):
    return [line.text for line in run.lines]


@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_run_logs_is_stored_with_its_outcome(app, is_async):
    def say(to):
        log.info("sending to %s", to)
        log.warning("slow")

    if is_async:

        @app.task(logs=10)
        async def mail(to: str) -> None:
            await asyncio.sleep(0)
            say(to)

    else:

        @app.task(logs=10)
        def mail(to: str) -> None:
            say(to)

    first, second = mail.enqueue("ada"), mail.enqueue("bob")
    app.drain()

    (run,) = logs(app, first)
    assert texts(run) == ["sending to ada", "slow"]
    assert [(line.level, line.logger) for line in run.lines] == [
        ("info", "shop.mail"),
        ("warning", "shop.mail"),
    ]
    assert (run.attempt, run.dropped) == (1, 0)
    assert texts(logs(app, second)[0])[0] == "sending to bob"
    # The row is kept, as one with a result is.
    assert first.status() is Status.SUCCEEDED
    assert task(app, first)["prune_at"] is not None


def test_a_run_that_logs_nothing_leaves_nothing(app):
    @app.task(logs=10)
    def quiet() -> None: ...

    quiet.enqueue()
    app.drain()

    assert count(app) == 0
    assert rows(app) == []


def test_a_kind_without_the_option_keeps_nothing(app):
    @app.task
    def mail() -> None:
        log.warning("hello")

    mail.enqueue()
    app.drain()

    assert rows(app) == []


def test_every_attempt_has_its_log_and_its_traceback(app, clock):
    @app.task(logs=10, retries=1, backoff="1s")
    def mail() -> None:
        try:
            raise ConnectionError("refused")
        except ConnectionError:
            log.exception("cannot send")
            raise

    ref = mail.enqueue()
    app.drain()
    clock.forward("1m")
    app.drain()

    second, first = logs(app, ref)
    assert (first.attempt, second.attempt) == (1, 2)
    assert texts(first)[0].startswith("cannot send\nTraceback")
    assert "ConnectionError: refused" in texts(second)[0]


def test_a_run_that_timed_out_has_its_log(app):
    @app.task(logs=10, timeout="50ms")
    async def hang() -> None:
        log.info("waiting")
        await asyncio.Event().wait()

    ref = hang.enqueue()
    app.drain()

    assert texts(logs(app, ref)[0]) == ["waiting"]


def test_a_cancelled_run_has_its_log(app):
    @app.task(logs=10)
    def stop() -> None:
        log.info("not today")
        raise Cancel("closed")

    ref = stop.enqueue()
    app.drain()

    assert texts(logs(app, ref)[0]) == ["not today"]


def test_items_crons_and_nodes_have_logs_too(app, clock):
    @app.rolling(every="10d", logs=5)
    def stock(code: str) -> None:
        log.info("visiting %s", code)

    @app.cron("0 3 * * *", logs=5)
    def nightly() -> None:
        log.info("night")

    @app.task(logs=5)
    def pack() -> None:
        log.info("packing")

    @app.flow
    def ship(flow):
        flow.add(pack)

    app.drain()
    stock.add(["bolt"])
    ship.start()
    clock.forward("1d")
    app.drain()

    assert sorted(row["kind"] for row in rows(app)) == ["nightly", "pack", "stock"]


def test_only_the_last_records_are_kept(app):
    @app.task(logs=3)
    def talk() -> None:
        for number in range(10):
            log.info("line %d", number)

    ref = talk.enqueue()
    app.drain()

    (run,) = logs(app, ref)
    assert (texts(run), run.dropped) == (["line 7", "line 8", "line 9"], 7)


def test_a_log_is_bounded_in_its_size(app):
    @app.task(logs=1000)
    def talk() -> None:
        for _ in range(100):
            log.info("x" * 100_000)

    ref = talk.enqueue()
    app.drain()

    (run,) = logs(app, ref)
    assert sum(len(text) for text in texts(run)) <= LARGEST_LOG
    assert run.dropped > 0


@pytest.mark.parametrize("text", ["nul \x00 byte", "lone \ud800 surrogate", "ship 🚢", "%s %d"])
def test_any_text_can_be_logged(app, text):
    # Nobody prints it: not every stream takes such a text.
    quiet = logging.getLogger("shop.quiet")
    quiet.handlers = [logging.NullHandler()]
    quiet.propagate = False

    @app.task(logs=5)
    def talk() -> None:
        quiet.critical(text)

    ref = talk.enqueue()
    app.drain()

    assert texts(logs(app, ref)[0])[0][:3] == text[:3]


def test_a_log_is_searched_in_upper_and_lower_case(app):
    @app.task(logs=10)
    def talk() -> None:
        log.info("Ada was there")
        log.info("nobody else")

    ref = talk.enqueue()
    app.drain()

    assert texts(logs(app, ref, search="ADA")[0]) == ["Ada was there"]
    assert logs(app, ref, search="eve") == []


def test_what_a_callback_logs_belongs_to_its_task(app):
    from windlass import context

    @app.task(logs=10)
    def book() -> None:
        log.info("booking")
        context().on_finish(lambda connection: log.info("booked"))

    ref = book.enqueue()
    app.drain()

    assert "booking" in texts(logs(app, ref)[0])


def test_a_result_and_keep_0_are_as_without_a_log(app):
    @app.task(logs=10, keep=None)
    def add() -> int:
        log.info("adding")
        return 3

    @app.task(logs=10, keep="0s")
    def forget() -> None:
        log.info("gone")

    ref, _ = add.enqueue(), forget.enqueue()
    app.drain()

    assert ref.result() == 3
    assert [row["kind"] for row in rows(app)] == ["add"]


def test_old_logs_are_pruned(app, clock, monkeypatch):
    monkeypatch.setattr(store, "LOGS_PER_KIND", 2)

    @app.task(logs=1)
    def talk() -> None:
        log.info("hello")

    for _ in range(4):
        talk.enqueue()
    app.drain()

    prune(app, clock)
    assert len(rows(app)) == 2
    clock.forward("8d")
    prune(app, clock)
    assert rows(app) == []


@pytest.mark.parametrize("wrong", [-1, 1001, True, "10"])
def test_a_bad_number_of_records_is_refused(app, wrong):
    def send() -> None: ...

    with pytest.raises(BadDeclaration, match="logs="):
        app.task(logs=wrong)(send)


def prune(app, clock):
    app.database.write(lambda connection: store.prune_history(connection, now=clock.now()))


def rows(app):
    return app.database.read(
        lambda connection: [dict(row._mapping) for row in connection.execute(select(run_log))]
    )
