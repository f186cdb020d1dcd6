"""Handlers of many messages: an answer for each, and signals that are meant for all."""

import threading

import pytest
from sqlalchemy import text

import windlass
from tests.queue.engine.hand import running
from tests.queue.sending import depth, send
from tests.table import count
from tests.wait import eventually
from windlass import App, BadDeclaration, Cancel, Overloaded, Retry, Snooze
from windlass.database.schema import inbox


@pytest.fixture
def mail(app):
    @app.task
    def mail(code: str) -> None: ...

    return mail


def waiting(app):
    """The tasks that wait."""
    with app.database.engine.connect() as connection:
        return connection.scalar(
            text("select count(*) from windlass_task where kind = 'mail' and status = 0")
        )


def kept(app):
    """The messages that wait for another try, and their tries."""
    with app.database.engine.connect() as connection:
        query = text("select message_id, tries from windlass_message where status = 0")
        return dict(connection.execute(query).all())


@pytest.mark.everywhere
def test_each_message_ends_as_the_handler_answers_in_one_transaction(app, queue, clock, mail):
    answers = {
        "retry": Retry(after="1m"),
        "snooze": Snooze("2m"),
        "cancel": Cancel("not ours"),
        "bad": ValueError("no such product"),
        "class": Retry,
        "value": 7,
    }
    calls = []

    @app.consume(queue, many=10, retries=1, backoff="1m")
    def on_products(events: list[dict]) -> list[object]:
        calls.append([event["code"] for event in events])
        mail.using(delay="1d").enqueue_many([{"code": event["code"]} for event in events])
        return [answers.get(event["code"]) for event in events]

    send(queue, *({"code": code} for code in (*answers, "good")))
    app.drain()

    assert len(calls) == 1
    assert waiting(app) == len(answers) + 1
    assert kept(app) == {"m0": 1, "m1": 0, "m3": 1, "m4": 1}
    assert count(app, inbox) == len(answers) + 1
    assert depth(queue) == 0

    clock.forward("90s")
    app.drain()
    assert {code for call in calls[1:] for code in call} == {"retry", "bad", "class"}
    clock.forward("90s")
    answers.clear()
    app.drain()
    assert calls[-1] == ["snooze"]
    failed = {each.message_id: each.error for each in on_products.failed()}
    assert failed.keys() == {"m0", "m3", "m4"}
    assert "no such product" in failed["m3"]


def test_what_the_database_undoes_undoes_the_answers_too(app, queue, clock, mail):
    fails = [True]

    @app.consume(queue, many=10, backoff="1m")
    async def on_products(events: list[dict]) -> list[object]:
        await mail.using(delay="1d").aenqueue("bolt")
        if fails and fails.pop():
            windlass.context().conn.rollback()
        return [Retry(after="1h") for _ in events]

    send(queue, {"code": "bolt"})
    app.drain()
    assert (waiting(app), kept(app)) == (0, {"m0": 1})

    clock.forward("2m")
    app.drain()
    assert (waiting(app), kept(app)) == (1, {"m0": 2})


@pytest.mark.mostly("sqlite")
def test_signals_that_are_raised_are_for_all_and_split_nothing(app, queue, clock):
    raised = [Snooze("1h"), Overloaded("429", retry_after="1h"), Retry(after="1h")]
    calls = []

    @app.consume(queue, many=10, retries=3)
    def on_products(events: list[dict]) -> None:
        calls.append(len(events))
        if raised:
            raise raised.pop(0)

    send(queue, *({"code": str(number)} for number in range(5)))
    for _ in range(4):
        app.drain()
        clock.forward("2h")

    assert calls == [5] * 4
    assert on_products.failed() == []


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize(("answer", "said"), [(7, "a int"), ([None], "1 answers")])
def test_an_answer_that_does_not_fit_fails_all_at_once(app, queue, mail, answer, said):
    calls = []

    @app.consume(queue, many=10, retries=3)
    def on_products(events: list[dict]) -> object:
        calls.append(len(events))
        mail.using(delay="1d").enqueue("bolt")
        return answer

    send(queue, {"code": "bolt"}, {"code": "nut"})
    app.drain()

    assert calls == [2]
    assert waiting(app) == 0
    failed = on_products.failed()
    assert len(failed) == 2
    assert f"returned {said} for 2 messages" in failed[0].error


@pytest.mark.mostly("sqlite")
def test_a_list_waits_for_company_and_no_longer_than_it_may(database_url, queue):
    app = App(database_url, grace="2s")
    app.migrate()
    calls, all_are_there = [], threading.Event()

    @app.consume(queue, many=4, wait="30s")
    def on_products(events: list[dict]) -> None:
        calls.append(len(events))
        all_are_there.set()

    with running(app.worker()):
        for number in range(4):
            assert not all_are_there.is_set()
            send(queue, {"n": number}, ids=[f"m{number}"])
        assert all_are_there.wait(20)
    assert calls == [4]
    app.close()


@pytest.mark.mostly("sqlite")
def test_a_list_without_company_starts_after_its_wait(database_url, queue):
    app = App(database_url, grace="2s")
    app.migrate()
    calls = []

    @app.consume(queue, many=4, wait="50ms")
    def on_products(events: list[dict]) -> None:
        calls.append(len(events))

    send(queue, *({"n": number} for number in range(5)))
    with running(app.worker()):
        eventually(lambda: sum(calls) == 5, 20)
    assert calls == [4, 1]
    app.close()


@pytest.mark.mostly("sqlite")
def test_wait_is_refused_without_many(app, queue):
    with pytest.raises(BadDeclaration, match="give many="):
        app.consume(queue, wait="20ms")(len)
