"""What can get lost between a worker and its consumers, one by one, on both brokers.

A consumer that dies, a lost message, a lost reply, a second reply, and a reply after the take-over:
each row ends once, by the reply to the attempt that it names.
"""

import os
import socket
import uuid
from contextlib import closing

import pytest

from tests.fault.face.carried import MODULE, CarrierCrew, Shop
from tests.queue.engine.hand import Hand, receiver_of, running, sender_of
from tests.server.relay import Relay
from tests.wait import eventually
from windlass import Status
from windlass.clock import SECOND
from windlass.queue.broker import broker_of
from windlass.queue.engine.carrier import sender as sender_module
from windlass.queue.model.carrier import reply_queue
from windlass.queue.operate.carrier import make_consumer


@pytest.fixture
def crew(database_url, tmp_path, any_broker):
    """Processes on the broker of all tests, with a queue of their own."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    with closing(CarrierCrew(tmp_path, database_url, any_broker.url, name=name)) as crew:
        yield crew


@pytest.fixture
def shop(crew):
    return crew.shop


@pytest.fixture
def hand(shop):
    with Hand(shop.queue) as hand:
        yield hand


@pytest.fixture
def impatient(monkeypatch):
    """What is lost is sent again soon."""
    monkeypatch.setattr(sender_module, "WAIT", SECOND)
    monkeypatch.setattr(sender_module, "LONGEST_BUFFERED", 0)


def row_of(shop, ref):
    return shop.app.find(ref.id)


def consumer_of(shop):
    return make_consumer(shop.app.registry, shop.queue.name)


def test_what_a_consumer_had_that_died_is_delivered_to_another(crew, shop):
    shop.closed.touch()
    ref = shop.carried.enqueue(0)
    with running(shop.app.worker()):
        dying = crew.consumer()
        eventually(shop.begun.exists, 30.0)

        dying.kill()
        shop.closed.unlink()
        with running(consumer_of(shop)):
            fence = ref.result(timeout=30)

    row = row_of(shop, ref)
    # It was the same message, so it is the same attempt.
    assert (row.status, row.attempt, row.started_at) == (Status.SUCCEEDED, 1, fence)
    began = [line.split()[:2] for line in shop.begun.read_text().splitlines()]
    assert began == [[str(ref.id), str(fence)]] * 2
    crew.check({ref.id})


def test_a_lost_message_is_sent_again_after_its_deadline(shop, hand, impatient):
    ref = shop.carried.enqueue(0)
    with running(shop.app.worker()):
        (first,) = hand.take()
        # The broker has forgotten it.
        first.acknowledge()
        (second,) = hand.take()
        second.answer(result=second["fence"])
        ref.result(timeout=10)

    row = row_of(shop, ref)
    assert (row.status, row.attempt, row.started_at) == (Status.SUCCEEDED, 2, second["fence"])
    assert second["fence"] > first["fence"]
    assert second["id"] != first["id"]


def test_a_lost_reply_means_another_run_with_a_larger_fence(crew, shop, any_broker, impatient):
    shop.closed.touch()
    with Relay(any_broker.port) as relay:
        away = Shop(crew.url, relay.url(any_broker.url), shop.effects, name=shop.queue.name)
        ref = away.carried.enqueue(0)
        with running(away.app.worker()) as worker, running(consumer_of(shop)) as consumer:
            eventually(shop.begun.exists, 30.0)
            sender = sender_of(worker)
            # Otherwise it would be sent once more, and be answered once more.
            eventually(lambda: all(each.is_sent for each in sender.outstanding.all))
            replies = reply_queue(shop.queue, sender.transport.reply_to)
            # The worker cannot hear the reply, and the broker loses it.
            relay.refuse()
            shop.closed.unlink()
            with Hand(replies) as thief:
                (reply,) = thief.take()
                reply.acknowledge()
            relay.heal()
            fence = ref.result(timeout=30)
        away.app.close()

    assert reply["outcome"] == "succeeded"
    assert reply["result"] < fence
    # The first run had its effect, and its reply got lost; the second one ended the row.
    row = row_of(shop, ref)
    assert (row.status, row.attempt, row.started_at) == (Status.SUCCEEDED, 2, fence)
    assert sorted(ran for _, ran in crew.ran()) == [reply["result"], fence]
    assert consumer.done == 2
    crew.check({ref.id})


def test_a_second_reply_changes_nothing(crew, shop, hand):
    refs = [shop.carried.enqueue(0), shop.carried.enqueue(0)]
    with running(shop.app.worker()) as worker:
        first, second = sorted(hand.take(2), key=lambda message: message["task"])
        # One comes with the first reply, before it is written; one comes after it.
        first.reply(result=first["fence"])
        first.answer("failed", error="no, it failed", final=True)
        second.reply(result=second["fence"])
        for ref in refs:
            ref.result(timeout=10)
        second.answer("cancelled", error="no, cancel it")
        eventually(lambda: receiver_of(worker).stale == 2)

    assert [row_of(shop, ref).status for ref in refs] == [Status.SUCCEEDED] * 2
    assert [ref.result() for ref in refs] == [first["fence"], second["fence"]]
    for message in (first, second):
        # As `check` wants it: the runs had these effects.
        with shop.effects.open("a") as file:
            file.write(f"{message['task']} {message['fence']} 0\n")
    crew.check({ref.id for ref in refs})


def test_a_reply_after_the_take_over_changes_nothing(crew, shop, hand):
    stopped = crew.worker()
    ref = shop.carried.enqueue(0)
    (first,) = hand.take()
    # Its claim is written down, so that another worker takes it over.
    eventually(lambda: row_of(shop, ref).status is Status.RUNNING)

    crew.pause(stopped)
    with running(shop.app.worker()):
        (second,) = hand.take()
        first.reply("failed", error="too late", final=True)
        stopped.resume()
        # It has read the reply when it works again, under another id.
        eventually(lambda: stopped.has_joined(2), 30.0, what="the worker that was stopped")
        with broker_of(shop.queue) as broker:
            replies = reply_queue(shop.queue, first["reply_to"])
            eventually(lambda: broker.depth(replies) == 0)
        assert row_of(shop, ref).status is Status.RUNNING
        second.answer(result=second["fence"])
        assert ref.result(timeout=10) == second["fence"]
        first.acknowledge()

    row = row_of(shop, ref)
    assert (row.status, row.started_at) == (Status.SUCCEEDED, second["fence"])
    assert second["fence"] > first["fence"]
    assert row.remark is None


def test_a_consumer_opens_no_database(crew, shop):
    with socket.create_server(("127.0.0.1", 0)) as nowhere:
        nowhere.setblocking(False)
        port = nowhere.getsockname()[1]
        effects, broker, name = str(shop.effects), shop.queue.url, shop.queue.name
        # The consumer's app names a database where somebody would notice a connection.
        url = f"postgresql://nobody@127.0.0.1:{port}/none"
        source = MODULE.format(url=url, broker=broker, effects=effects, name=name)
        (crew.folder / "served.py").write_text(source)
        consumer = crew.consumer()
        with running(shop.app.worker()):
            ref = shop.carried.enqueue(0)
            fence = ref.result(timeout=30)
        assert consumer.terminate() == 0

        with pytest.raises(BlockingIOError):
            nowhere.accept()

    assert list(crew.ran()) == [(ref.id, fence)]
    assert str(os.getpid()) not in shop.effects.read_text().split()
