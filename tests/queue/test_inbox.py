"""Consumers: each message has its effect once, in one transaction with its id."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

import windlass
from tests.queue.engine.hand import running
from tests.queue.sending import depth, send
from tests.table import count
from tests.wait import eventually
from windlass import App, BadDeclaration, context
from windlass.clock import SECOND
from windlass.database.schema import inbox as inbox_table
from windlass.queue import Queue, ReceivedMessage
from windlass.queue.engine import effect


@pytest.fixture
def mail(app):
    @app.task
    def mail(code: str) -> None: ...

    return mail


def waiting(app, kind):
    """The keys or payloads of the tasks of a kind that wait."""
    with app.database.engine.connect() as connection:
        query = "select payload from windlass_task where kind = :kind and status = 0 order by id"
        return [str(row[0]) for row in connection.execute(text(query), {"kind": kind})]


def test_a_message_that_is_delivered_twice_counts_once(app, queue, mail):
    seen = []

    @app.consume(queue)
    def on_product(event: dict) -> None:
        seen.append(event["code"])
        mail.using(delay="1h").enqueue(event["code"])

    send(queue, {"code": "bolt"}, {"code": "nut"})
    app.drain()
    send(queue, {"code": "bolt"}, {"code": "nut"}, {"code": "screw"})
    app.drain()

    assert sorted(seen) == ["bolt", "nut", "screw"]
    assert len(waiting(app, "mail")) == 3
    assert depth(queue) == 0


def test_all_effects_are_one_transaction_and_a_failed_try_leaves_none(app, queue, mail, clock):
    fails = [True]
    out = Queue(queue.url, f"{queue.name}-out")
    with app.database.engine.begin() as connection:
        connection.execute(text("create table product (code varchar(20))"))

    @app.rolling(every="10d")
    def level(code: str) -> None: ...

    @app.flow
    def ship(flow, code: str):
        flow.add(mail, code)

    @app.consume(queue, backoff="10s")
    def on_product(event: dict) -> None:
        mail.using(delay="1h").enqueue(event["code"])
        level.add([event["code"]])
        ship.start(event["code"])
        app.publish(out, event)
        context().conn.execute(
            text("insert into product (code) values (:code)"), {"code": event["code"]}
        )
        if fails.pop():
            raise ValueError("not yet")

    def effects():
        with app.database.engine.connect() as connection:
            products = connection.scalar(text("select count(*) from product"))
            outgoing = connection.scalar(text("select count(*) from windlass_outbox"))
            flows = connection.scalar(
                text("select count(*) from windlass_task where kind = 'ship'")
            )
        return products, outgoing + depth(out), flows, len(waiting(app, "mail"))

    send(queue, {"code": "bolt"})
    app.drain()
    assert effects() == (0, 0, 0, 0)
    assert level.item("bolt") is None

    fails[:] = [False]
    clock.forward("1m")
    app.drain()
    assert effects()[:3] == (1, 1, 1)
    assert level.item("bolt") is not None
    with app.database.engine.begin() as connection:
        connection.execute(text("drop table product"))


def test_a_call_that_fails_inside_the_handler_is_undone_and_the_rest_counts(app, queue, mail):
    @app.consume(queue)
    def on_product(event: dict) -> None:
        mail.using(key="k", delay="1h").enqueue("first")
        with pytest.raises(windlass.DuplicateKey):
            mail.using(key="k", delay="1h", on_conflict="raise").enqueue("second")
        mail.using(key="other", delay="1h").enqueue("third")

    send(queue, {})
    app.drain()

    assert len(waiting(app, "mail")) == 2
    assert on_product.failed() == []


def test_an_async_handler_joins_in_the_same_way(app, queue, mail, clock):
    fails = [True]

    @app.consume(queue, backoff="1s")
    async def on_product(event: dict) -> None:
        await mail.using(delay="1h").aenqueue(event["code"])
        await asyncio.sleep(0)
        await asyncio.gather(*(mail.using(delay="1h").aenqueue(event["code"]) for _ in range(3)))
        if fails and fails.pop():
            raise ValueError("not yet")

    send(queue, {"code": "bolt"})
    app.drain()
    assert waiting(app, "mail") == []

    clock.forward("10s")
    app.drain()
    assert len(waiting(app, "mail")) == 4


def test_a_message_fails_after_its_last_try_and_is_kept_with_its_body(app, queue, clock, events):
    tries = []

    @app.consume(queue, retries=2, backoff="1s")
    def on_product(event: dict) -> None:
        tries.append(context().attempt)
        raise ValueError("no such product")

    send(queue, {"code": "bolt"}, headers={"tenant": "a"})
    for _ in range(4):
        app.drain()
        clock.forward("10s")

    (failed,) = on_product.failed()
    assert tries == [1, 2, 3]
    assert (failed.message_id, failed.body, failed.tries) == ("m0", '{"code": "bolt"}', 3)
    assert "no such product" in failed.error
    assert '"tenant":"a"' in failed.headers
    assert any(name == "message.failed" for name, _ in events)
    (alert,) = [alert for alert in app.alerts() if alert.what == "message failed"]
    assert "m0" in alert.text


def test_a_failed_message_is_tried_again_or_dropped(app, queue, clock):
    works = []

    @app.consume(queue, retries=0)
    def on_product(event: dict) -> None:
        if not works:
            raise ValueError("no")
        works.append(event["code"])

    send(queue, {"code": "bolt"}, {"code": "nut"})
    app.drain()
    first, second = sorted(on_product.failed(), key=lambda each: each.message_id)

    assert on_product.drop([first.id]) == 1
    works.append("ready")
    assert on_product.retry() == 1
    app.drain()

    assert works == ["ready", "nut"]
    assert on_product.failed() == []
    assert second.message_id == "m1"


@pytest.mark.mostly("sqlite")
def test_a_malformed_message_does_not_block_the_queue(app, queue):
    seen = []

    @dataclass
    class Product:
        code: str
        price: int

    @app.consume(queue)
    def on_product(product: Product) -> None:
        seen.append(product)

    send(queue, b"{not json", b"\xff\x00", {"code": "bolt"}, {"code": "nut", "price": 5})
    app.drain()

    assert seen == [Product("nut", 5)]
    failed = {each.message_id: each for each in on_product.failed()}
    assert failed.keys() == {"m0", "m1", "m2"}
    assert "price" in failed["m2"].error
    assert failed["m1"].is_binary
    assert depth(queue) == 0


@pytest.mark.mostly("sqlite")
def test_bodies_can_be_bytes_and_whole_messages(app, queue):
    other = Queue(queue.url, f"{queue.name}-other")
    seen = []

    @app.consume(queue)
    def on_bytes(body: bytes) -> None:
        seen.append(body)

    @app.consume(other)
    def on_message(message: ReceivedMessage) -> None:
        seen.append((message.id, message.body, message.headers["tenant"], message.queue))

    send(queue, b"\xff\x00")
    send(other, b"x", headers={"tenant": "a"})
    app.drain()

    assert sorted(seen, key=str) == [("m0", b"x", "a", other.name), b"\xff\x00"]


@pytest.mark.mostly("sqlite")
def test_a_message_without_an_id_is_not_handled_unless_its_body_is_its_id(app, queue):
    other = Queue(queue.url, f"{queue.name}-other")
    seen = []

    @app.consume(queue)
    def by_id(event: dict) -> None:
        seen.append(event)

    @app.consume(other, identity="body")
    def by_body(event: dict) -> None:
        seen.append(event)

    send(queue, {"n": 1}, ids=[""])
    send(queue, {"n": 2}, ids=[""], headers={"message-id": "theirs"})
    send(other, {"n": 3}, {"n": 3}, {"n": 4}, ids=["", "", ""])
    app.drain()

    assert sorted(each["n"] for each in seen) == [2, 3, 4]
    (failed,) = by_id.failed()
    assert 'identity="body"' in failed.error


def test_many_messages_are_one_call_and_one_transaction(app, queue, mail):
    groups = []

    @app.consume(queue, many=10)
    def on_products(events: list[dict]) -> None:
        groups.append(len(events))
        mail.using(delay="1h").enqueue_many([{"code": event["code"]} for event in events])

    send(queue, *({"code": str(number)} for number in range(25)))
    app.drain()
    send(queue, *({"code": str(number)} for number in range(26)))
    app.drain()

    assert sum(groups) == 26
    assert max(groups) == 10
    assert len(waiting(app, "mail")) == 26


def test_one_bad_message_of_many_fails_alone(app, queue, clock, mail):
    @app.consume(queue, many=10, retries=1, backoff="1s")
    def on_products(events: list[dict]) -> None:
        for event in events:
            if event["code"] == "3":
                raise ValueError("bad")
            mail.using(delay="1h").enqueue(event["code"])

    send(queue, *({"code": str(number)} for number in range(8)))
    app.drain()
    clock.forward("1m")
    app.drain()

    assert len(waiting(app, "mail")) == 7
    assert [each.message_id for each in on_products.failed()] == ["m3"]


def test_messages_of_one_lane_are_handled_in_order_also_when_one_is_tried_again(app, queue, clock):
    seen = []
    fails = {"a1"}

    @app.consume(queue, lane=lambda event: event["key"], concurrency=8, backoff="1s")
    def on_product(event: dict) -> None:
        name = f"{event['key']}{event['n']}"
        if name in fails:
            fails.remove(name)
            raise ValueError("not yet")
        seen.append(name)

    send(queue, *({"key": key, "n": n} for n in range(5) for key in "ab"))
    app.drain()
    assert [each for each in seen if each[0] == "b"] == ["b0", "b1", "b2", "b3", "b4"]
    assert [each for each in seen if each[0] == "a"] == ["a0"]

    send(queue, {"key": "a", "n": 5}, ids=["later"])
    app.drain()
    clock.forward("1m")
    app.drain()
    assert [each for each in seen if each[0] == "a"] == ["a0", "a1", "a2", "a3", "a4", "a5"]


@pytest.mark.mostly("sqlite")
def test_a_paused_consumer_takes_nothing_and_goes_on_when_it_is_resumed(app, queue):
    seen = []

    @app.consume(queue)
    def on_product(event: dict) -> None:
        seen.append(event["n"])

    app.pause("on_product")
    send(queue, {"n": 1})
    app.drain()
    assert (seen, depth(queue)) == ([], 1)

    app.resume("on_product")
    app.drain()
    assert (seen, depth(queue)) == ([1], 0)


@pytest.mark.mostly("sqlite")
def test_signals_of_a_handler(app, queue, clock):
    raised = {
        "cancel": windlass.Cancel("not ours"),
        "snooze": windlass.Snooze("1h"),
        "retry": windlass.Retry(after="1m"),
    }
    seen = []

    @app.consume(queue)
    def on_product(event: dict) -> None:
        if (signal := raised.pop(event["what"], None)) is not None:
            raise signal
        seen.append((event["what"], context().attempt))

    send(queue, {"what": "cancel"}, {"what": "snooze"}, {"what": "retry"})
    app.drain()
    clock.forward("2m")
    app.drain()
    assert seen == [("retry", 2)]

    clock.forward("2h")
    app.drain()
    assert seen == [("retry", 2), ("snooze", 1)]
    assert on_product.failed() == []


def test_ids_are_forgotten_after_their_time(app, queue, clock):
    seen = []

    @app.consume(queue, remember="1d")
    def on_product(event: dict) -> None:
        seen.append(event)

    from windlass.core.face import Tidying
    from windlass.queue.store import inbox

    send(queue, {})
    app.drain()
    assert count(app, inbox_table) == 1

    clock.forward("2d")
    database = app.database
    database.write(
        lambda connection: inbox.prune(
            Tidying(connection, database.dialect, app.fleet.faces, clock.now(), 100)
        )
    )
    assert count(app, inbox_table) == 0


@pytest.mark.mostly("sqlite")
def test_context_has_the_message_and_only_there_a_connection(app, queue):
    seen = []

    @app.consume(queue)
    def on_product(event: dict) -> None:
        seen.extend((context().key, context().messages[0].id, context().kind))

    @app.task(keep="1d")
    def plain() -> None:
        assert context().conn

    send(queue, {})
    ref = plain.enqueue()
    app.drain()

    assert seen == ["m0", "m0", "on_product"]
    with pytest.raises(windlass.TaskFailed, match="on_finish"):
        ref.result()


@pytest.mark.mostly("sqlite")
def test_a_worker_consumes_only_what_it_is_told(app, queue):
    other = Queue(queue.url, f"{queue.name}-other")
    seen = []

    @app.consume(queue)
    def first(event: dict) -> None:
        seen.append("first")

    @app.consume(other)
    def second(event: dict) -> None:
        seen.append("second")

    send(queue, {})
    send(other, {})
    for chosen in ([], ["second"]):
        asyncio.run(app.worker(until_idle=True, consume=chosen).run())
        assert seen == chosen
    with pytest.raises(windlass.WindlassError, match="nobody"):
        app.worker(consume=["nobody"])


@pytest.mark.mostly("sqlite")
def test_a_wrong_declaration_is_refused(app, queue):
    def takes_one(event: dict) -> None: ...

    def takes_two(event: dict, more: int) -> None: ...

    def no_list(event: dict) -> None: ...

    wrong = [
        ({"queue": "product"}, takes_one, "is not a queue"),
        ({"many": 0}, takes_one, "many"),
        ({"identity": "hash"}, takes_one, "identity"),
        ({"lane": "key"}, takes_one, "lane"),
        ({"many": 5, "lane": len}, takes_one, "cannot be combined"),
        ({}, takes_two, "one argument"),
        ({"many": 5}, no_list, "list"),
        ({"via": queue}, takes_one, "via= would take the handler away"),
        ({"remember": None}, takes_one, "forget ids at once"),
        ({"queue": Queue("memory://", "m"), "lane": len}, takes_one, "needs a queue of RabbitMQ"),
    ]
    for options, function, cure in wrong:
        given = {"queue": queue, **options}
        with pytest.raises(BadDeclaration, match=cure):
            app.consume(given.pop("queue"), **given)(function)


@pytest.mark.mostly("sqlite")
def test_calling_a_consumer_just_calls_the_function(app, queue):
    seen = []

    @app.consume(queue)
    def on_product(event: dict) -> None:
        seen.append(event)

    on_product({"code": "bolt"})

    assert seen == [{"code": "bolt"}]
    assert "on_product" in repr(on_product)


@pytest.mark.mostly("sqlite")
def test_wrong_credentials_do_not_stop_the_other_work_of_a_worker(app, redis, mail, events):
    wrong = Queue(redis.url_with("wrong"), "product")

    @app.consume(wrong)
    def on_product(event: dict) -> None: ...

    ref = mail.using().enqueue("bolt")
    with pytest.raises(windlass.BrokerRefused, match="check user and password"):
        app.drain()

    assert ref.status() is not windlass.Status.FAILED
    failed = [fields for name, fields in events if name == "queue.failed"]
    assert failed
    assert "wrong" not in str(failed)
    assert [alert.what for alert in app.alerts()] == ["broker"]


def test_with_several_shards_one_inbox_counts_and_tasks_of_any_shard_are_written(sharded, queue):
    seen = []

    @sharded.task(keep="1d")
    def mail(code: str) -> None:
        seen.append(code)

    @sharded.consume(queue)
    def on_product(event: dict) -> None:
        mail.using(key=event["code"]).enqueue(event["code"])
        mail.enqueue(event["code"])

    for _ in range(2):
        send(queue, *({"code": str(number)} for number in range(6)))
        sharded.drain()

    assert len(seen) == 12


@pytest.mark.everywhere
@pytest.mark.parametrize("undo", ["caught", "rolled back"])
def test_a_handler_that_undoes_its_transaction_is_a_failure_and_loses_nothing(
    app, queue, mail, clock, undo
):
    is_first = [True]
    with app.database.engine.begin() as connection:
        connection.execute(text("create table price (code varchar(20) primary key)"))
        connection.execute(text("insert into price values ('bolt')"))

    @app.consume(queue, backoff="10s")
    def on_price(event: dict) -> None:
        mail.using(delay="1h").enqueue(event["code"])
        if not is_first or not is_first.pop():
            return
        if undo == "caught" and app.database.dialect.name == "postgresql":
            with suppress(IntegrityError):
                context().conn.execute(text("insert into price values ('bolt')"))
        else:
            # As MySQL does by itself after a deadlock.
            context().conn.rollback()
            mail.using(delay="1h").enqueue("again")

    send(queue, {"code": "bolt"})
    app.drain()
    assert waiting(app, "mail") == []
    (kept,) = app.database.read(
        lambda connection: connection.execute(text("select error from windlass_message")).all()
    )
    assert "begin_nested" in kept[0]

    clock.advance(20 * SECOND)
    app.drain()

    assert len(waiting(app, "mail")) == 1
    assert depth(queue) == 0


def test_a_statement_that_may_fail_in_a_savepoint_costs_nothing_else(app, queue, mail):
    with app.database.engine.begin() as connection:
        connection.execute(text("create table price (code varchar(20) primary key)"))
        connection.execute(text("insert into price values ('bolt')"))

    @app.consume(queue)
    def on_price(event: dict) -> None:
        mail.using(delay="1h").enqueue(event["code"])
        with suppress(IntegrityError), context().conn.begin_nested():
            context().conn.execute(text("insert into price values ('bolt')"))

    send(queue, {"code": "bolt"})
    app.drain()

    assert len(waiting(app, "mail")) == 1
    assert count(app, inbox_table) == 1


def test_two_consumers_of_one_queue_are_refused(app, queue):
    @app.consume(queue)
    def on_product(event: dict) -> None: ...

    with pytest.raises(BadDeclaration, match=r"'on_product' consumes queue .* already"):

        @app.consume(Queue(queue.url, queue.name))
        def on_other(event: dict) -> None: ...


def test_a_wrong_queue_is_refused_without_its_password(app, queue):
    url = "amqp://shop:open-sesame@broker/"
    with pytest.raises(BadDeclaration) as consumed:
        app.consume(url)(print)
    with pytest.raises(BadDeclaration) as carried:
        app.task(via=url)(waiting)
    with pytest.raises(windlass.BadInput) as published:
        app.publish_many(url, [{}])

    for refused in (consumed, carried, published):
        assert "sesame" not in str(refused.value)


def test_a_message_whose_connection_always_breaks_fails_in_the_end(
    postgresql_url, queue, monkeypatch
):
    app, calls = App(postgresql_url), []
    monkeypatch.setattr(effect, "MOST_DISTURBED", 2)

    @app.consume(queue, retries=1, backoff="100ms")
    def on_product(event: dict) -> None:
        calls.append(event)
        if len(calls) == 1:
            raise ValueError("kept from now on")
        context().conn.execute(text("select pg_terminate_backend(pg_backend_pid())"))

    send(queue, {"code": "bolt"})
    with running(app.worker()):
        eventually(lambda: [each for each in on_product.failed() if each.failed_at], 30)

    (failed,) = on_product.failed()
    app.close()
    assert failed.tries == 2
    assert len(calls) == 4
