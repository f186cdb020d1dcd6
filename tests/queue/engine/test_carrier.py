"""A worker carries its rows to consumers, and every fault on the way ends right.

The consumer is moved by hand here, so that a test decides what gets lost, and when.
"""

import queue
import time

import kombu
import msgspec
import pytest

import windlass
from tests.fixture.broker import fresh_queue
from tests.queue.engine.hand import Hand, receiver_of, running, sender_of
from tests.wait import eventually, let_tick
from windlass import App, Keys, Status
from windlass.operate.task import operate
from windlass.queue import ArrivedReply, Carrier, Sent, Transport
from windlass.queue.engine.carrier import sender as sender_module

pytestmark = pytest.mark.mostly("sqlite")


@pytest.fixture
def via(rabbitmq):
    return fresh_queue(rabbitmq)


@pytest.fixture
def shop(database_url):
    """An app by the real clock: replies come in real time."""
    shop = App(database_url, grace="1s")
    yield shop
    shop.close()


@pytest.fixture
def impatient(monkeypatch):
    """A message may wait for a moment only, beside the time-out of its kind."""
    monkeypatch.setattr(sender_module, "WAIT", 0)


@pytest.fixture
def hand(via):
    with Hand(via, prefetch=200) as hand:
        yield hand


def test_a_message_says_what_to_run_and_its_reply_ends_the_row(shop, via, hand):
    @shop.task(via=via, keep="1d", timeout="30s")
    def add(first: int, second: int = 2) -> int:
        raise AssertionError("it does not run in the worker")

    before = time.time()
    ref = add.using(key="sum").enqueue(1)

    with running(shop.worker()):
        (message,) = hand.take()
        row = shop.find(ref.id)
        message.answer(result=3)
        assert ref.result(timeout=10) == 3

    assert row.status in (Status.WAITING, Status.RUNNING)
    body = message.body
    assert body["windlass"] == 1
    assert (body["kind"], body["arguments"]) == ("add", {"first": 1})
    assert (body["task"], body["key"], body["attempt"], body["tries"]) == (ref.id, "sum", 1, 1)
    assert body["timeout"] == 30
    # 30 s to run, up to 30 s in the memory of a consumer, and 10 s in the queue.
    assert before + 70 < body["deadline"] < time.time() + 80
    assert body["fence"] == shop.find(ref.id).started_at
    assert message.delivery.reply_to == body["reply_to"]
    assert message.delivery.correlation_id == body["id"]


@pytest.mark.parametrize(
    ("said", "status", "remark"),
    [
        ({"outcome": "failed", "error": "no such shop", "final": True}, 3, "no such shop"),
        ({"outcome": "failed", "error": "timed out"}, 0, "timed out"),
        ({"outcome": "retry", "error": "busy", "after": 3600}, 0, "busy"),
        ({"outcome": "cancelled", "error": "sold out"}, 6, "sold out"),
        ({"outcome": "snoozed", "after": 3600}, 0, None),
        ({"outcome": "overloaded", "error": "429", "after": 3600}, 0, "429"),
        ({"outcome": "refused", "error": "unknown kind"}, 0, "unknown kind"),
    ],
)
def test_each_outcome_changes_the_row_as_if_the_handler_had_run_here(
    shop, via, hand, said, status, remark
):
    @shop.task(via=via, retries=1, backoff="1h")
    def carried() -> None: ...

    ref = carried.enqueue()

    with running(shop.worker()):
        (message,) = hand.take()
        message.answer(**said)
        eventually(lambda: ended(shop, ref))

    row = shop.find(ref.id)
    assert (row.status, row.remark) == (status, remark)
    counts = said["outcome"] not in ("snoozed", "overloaded")
    assert row.attempt == (1 if counts else 0)
    if row.status == 0:
        wait = (row.due_at - shop.clock.now()) / 1e6
        assert wait > (30 if said["outcome"] == "refused" else 2_000)


def ended(shop, ref):
    """Whether the outcome of a try is written."""
    row = shop.find(ref.id)
    has_ended = row.status not in (Status.WAITING, Status.RUNNING)
    return has_ended or row.due_at > shop.clock.now() + 20_000_000


def test_a_failure_counts_against_the_retries_of_the_kind(shop, via, hand):
    @shop.task(via=via, retries=1, backoff="1ms")
    def carried() -> None: ...

    ref = carried.enqueue()

    with running(shop.worker()):
        for number in (1, 2):
            (message,) = hand.take()
            assert (message["attempt"], message["tries"]) == (number, number)
            message.answer("failed", error=f"broke {number}", trace=f"line {number}")
        eventually(lambda: shop.find(ref.id).status is Status.FAILED)

    assert shop.find(ref.id).remark == "broke 2"
    failures, _ = operate.failures_of(shop.fleet, ref.id)
    assert [each.trace for each in failures] == ["line 2", "line 1"]


def test_a_second_reply_changes_nothing(shop, via, hand):
    @shop.task(via=via, keep="1d")
    def carried() -> int: ...

    ref = carried.enqueue()
    with running(shop.worker()) as worker:
        (message,) = hand.take()

        message.reply(result=1)
        assert ref.result(timeout=10) == 1
        message.answer("failed", error="I changed my mind", final=True)
        eventually(lambda: receiver_of(worker).stale == 1)
        # It still works.
        carried.enqueue()
        hand.take()[0].answer()
        eventually(lambda: not worker.in_flight.running)

    assert (shop.find(ref.id).status, ref.result()) == (Status.SUCCEEDED, 1)


def test_a_reply_of_an_earlier_attempt_does_not_end_a_later_one(shop, via, hand, impatient):
    @shop.task(via=via, keep="1d", retries=3, backoff="1ms", timeout="300ms")
    def carried() -> str: ...

    ref = carried.enqueue()
    with running(shop.worker()) as worker:
        (first,) = hand.take()
        first.acknowledge()
        # Its deadline passes, and it is carried again.
        (second,) = hand.take()

        first.reply(result="too late")
        eventually(lambda: receiver_of(worker).stale == 1)
        assert shop.find(ref.id).status in (Status.WAITING, Status.RUNNING)
        second.answer(result="in time")
        assert ref.result(timeout=10) == "in time"

    assert second["fence"] > first["fence"]
    assert second["attempt"] == 2


def test_a_lost_message_times_out_and_counts_as_a_try(shop, via, hand, impatient):
    @shop.task(via=via, retries=1, backoff="1ms", timeout="200ms")
    def carried() -> None: ...

    ref = carried.enqueue()
    with running(shop.worker()):
        # Taken, and never answered.
        hand.take()[0].acknowledge()
        hand.take()[0].acknowledge()
        eventually(lambda: shop.find(ref.id).status is Status.FAILED)

    row = shop.find(ref.id)
    assert row.attempt == 2
    assert row.remark == f"TimeoutError: no consumer of {via.name!r} answered within 0.4 s"


def test_without_consumers_few_rows_wait_and_no_try_is_counted(
    shop, via, hand, impatient, monkeypatch
):
    monkeypatch.setattr(sender_module, "SILENT_SECONDS", 0.3)

    @shop.rolling(every="1d", via=via, timeout="100ms")
    def carried(code: str) -> None: ...

    carried.add(f"c{number}" for number in range(500))
    with running(shop.worker()) as worker:
        eventually(lambda: hand.depth() == 8)
        (alert,) = eventually(lambda: [each for each in shop.alerts() if each.is_open])
        # Long after their deadlines.
        let_tick(sender_of(worker), times=5)
        time.sleep(0.5)
        assert hand.depth() == 8
        assert len(worker.in_flight.running) == 8

        messages = hand.take(8)
        assert {message["attempt"] for message in messages} == {1}
        for message in messages:
            message.answer("expired")
        eventually(lambda: not [each for each in shop.alerts() if each.is_open])
        again = hand.take(8)

    assert (alert.what, alert.kind) == ("no consumer", "carried")
    assert f"windlass consumer APP {via.name}" in alert.text
    # What was too old was not a try.
    assert {message["attempt"] for message in again} == {1}


def test_a_stopping_worker_does_not_wait_for_consumers_that_are_not_there(shop, via, hand):
    @shop.task(via=via)
    def carried() -> None: ...

    shop.set_grace("30s")
    refs = [carried.enqueue() for _ in range(3)]
    with running(shop.worker()) as worker:
        eventually(lambda: hand.depth() == 3 and sender_of(worker).waiting == 3)
        began = time.monotonic()

    assert time.monotonic() - began < 20
    rows = [shop.find(ref.id) for ref in refs]
    assert [(row.status, row.attempt) for row in rows] == [(Status.WAITING, 0)] * 3


def test_what_a_consumer_did_not_acknowledge_goes_to_another(shop, via):
    @shop.task(via=via, keep="1d")
    def carried() -> int: ...

    ref = carried.enqueue()
    with running(shop.worker()):
        with Hand(via) as dying:
            (first,) = dying.take()
        with Hand(via) as other:
            (second,) = other.take()
            second.answer(result=7)
            assert ref.result(timeout=10) == 7

    assert first["id"] == second["id"]
    assert second.delivery.is_again


def test_a_reply_queue_that_was_deleted_is_made_again(shop, via, hand):
    @shop.task(via=via, keep="1d")
    def carried() -> int: ...

    first = carried.enqueue()
    with running(shop.worker()):
        (message,) = hand.take()
        with kombu.Connection(via.url) as connection:
            connection.default_channel.queue_delete(message["reply_to"])

        second = carried.enqueue()
        for each in (message, *hand.take()):
            eventually(lambda each=each: has_replied(each), 10.0)
            each.acknowledge()

        assert (first.result(timeout=10), second.result(timeout=10)) == (7, 7)


def has_replied(message):
    """Reply; False if there is no queue for replies."""
    try:
        message.reply(result=7)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"windlass": 2, "id": "%s"}', "of protocol 2, and this side speaks protocol 1"),
        (b'{"windlass": 1, "id": "%s", "outcome": "great"}', "Invalid enum value 'great'"),
        (b'{"windlass": 1, "id": "%s"}', "missing required field `outcome`"),
    ],
)
def test_a_reply_that_is_not_understood_fails_the_row_and_says_why(shop, via, hand, body, says):
    @shop.task(via=via)
    def carried() -> None: ...

    ref = carried.enqueue()
    with running(shop.worker()):
        (message,) = hand.take()
        message.send(b"not even JSON")
        message.send(body % message["id"].encode())
        message.acknowledge()
        eventually(lambda: shop.find(ref.id).status is Status.FAILED)

    assert says in shop.find(ref.id).remark


def test_results_flow_to_the_nodes_after_a_carried_one(shop, via, hand):
    @shop.task(via=via)
    def count(order: str) -> int: ...

    @shop.task
    def double(number: int) -> int:
        return 2 * number

    @shop.flow
    def both(flow, order: str):
        counted = flow.add(count, order, name="count")
        flow.add(double, counted.result, name="double", after=[counted])

    with running(shop.worker()):
        run = both.start("order-7")
        (message,) = hand.take()
        message.answer(result=21)
        assert run.wait(timeout=15) is Status.SUCCEEDED

    assert message["arguments"] == {"order": "order-7"}
    assert {node.name: node.result for node in run.nodes()} == {"count": 21, "double": 42}


def test_items_of_a_sweep_are_carried_and_the_breakpoint_waits_for_their_replies(shop, via, hand):
    @shop.sweep(Keys(1, 6), ranges=1, via=via, concurrency=3)
    def offer(number: int) -> None: ...

    with running(shop.worker()):
        first = hand.take(3)
        assert hand.depth() == 0
        # The first item stays out, so the breakpoint stays before it.
        *_, held = sorted(first, key=lambda message: -message["arguments"]["number"])
        for message in first:
            if message is not held:
                message.answer()
        second = hand.take(2)
        assert [each.breakpoint for each in offer.ranges()] in ([None], ["null"])
        held.answer("failed", error="no offer", final=True)
        for message in second:
            message.answer()
        hand.take()[0].answer()
        eventually(lambda: offer.progress().done == 5 and offer.progress().failed == 1)

    (failure,) = offer.failures()
    assert (failure.key, failure.error) == (1, "no offer")
    assert held["key"] == "1"


def test_the_concurrency_of_a_kind_bounds_what_is_outstanding(shop, via, hand):
    @shop.task(via=via, concurrency=2)
    def carried(number: int) -> None: ...

    carried.enqueue_many([{"number": number} for number in range(10)])
    with running(shop.worker()) as worker:
        done = 0
        while done < 10:
            messages = hand.take(2)
            assert hand.depth() == 0
            assert worker.in_flight.loads["carried"].running == 2
            for message in messages:
                message.answer()
            done += len(messages)
        eventually(lambda: not worker.in_flight.running)

    assert sender_of(worker).window.size >= 2


def test_carried_runs_use_no_slot_of_the_worker(shop, via, hand):
    @shop.task(via=via)
    def carried() -> None: ...

    @shop.task(keep="1d")
    def here() -> str:
        return "ran"

    for _ in range(8):
        carried.enqueue()
    with running(shop.worker(concurrency=1)) as worker:
        eventually(lambda: len(worker.in_flight.running) == 8)

        assert here.enqueue().result(timeout=10) == "ran"

        for message in hand.take(8):
            message.answer()
        eventually(lambda: not worker.in_flight.running)


def test_the_window_grows_while_consumers_take_all_there_is(shop, via, hand):
    @shop.task(via=via)
    def carried(number: int) -> None: ...

    carried.enqueue_many([{"number": number} for number in range(200)])
    with running(shop.worker()) as worker:
        # Nothing is answered, but all of it is taken: these are long tasks.
        taken = hand.take(64)

        assert sender_of(worker).window.size >= 64
        for message in taken + hand.take(136):
            message.answer()


def test_a_downstream_bounds_what_is_outstanding(shop, via, hand):
    shop.downstream("warehouse", concurrency=3)

    @shop.task(via=via, downstream="warehouse")
    def carried(number: int) -> None: ...

    carried.enqueue_many([{"number": number} for number in range(12)])
    with running(shop.worker()) as worker:
        done = 0
        while done < 12:
            for message in hand.take(1):
                assert len(worker.in_flight.running) <= 3
                message.answer()
                done += 1
        eventually(lambda: not worker.in_flight.running)


def test_rates_and_lanes_hold_for_carried_kinds(shop, via, hand):
    @shop.task(via=via, rate="200/s", lane=lambda tenant, number: tenant)
    def carried(tenant: str, number: int) -> None: ...

    for number in range(5):
        for tenant in "ab":
            carried.enqueue(tenant, number)
    seen = {"a": [], "b": []}
    with running(shop.worker()) as worker:
        for _ in range(10):
            (message,) = hand.take()
            seen[message["arguments"]["tenant"]].append(message["arguments"]["number"])
            assert len(worker.in_flight.running) <= 2
            message.answer()
        eventually(lambda: not worker.in_flight.running)

    assert seen == {"a": [0, 1, 2, 3, 4], "b": [0, 1, 2, 3, 4]}


def test_a_cancelled_task_is_not_waited_for(shop, via, hand):
    @shop.task(via=via, keep="1d")
    def carried() -> int: ...

    ref = carried.enqueue()
    with running(shop.worker()) as worker:
        (message,) = hand.take()
        ref.cancel()
        eventually(lambda: not worker.in_flight.running)
        message.answer(result=1)
        eventually(lambda: receiver_of(worker).stale == 1)

    assert shop.find(ref.id).status is Status.CANCELLED


def test_a_consumer_whose_clock_is_ahead_is_named_as_the_cause(shop, via, hand):
    @shop.task(via=via)
    def carried() -> None: ...

    ref = carried.enqueue()
    with running(shop.worker()):
        hand.take()[0].answer("expired")
        eventually(lambda: shop.find(ref.id).remark)

    row = shop.find(ref.id)
    assert "too early that the message had come too late; set the clock" in row.remark
    assert (row.status, row.attempt) == (Status.WAITING, 1)
    assert row.due_at > time.time() * 1e6 + 30e6


def test_the_alert_of_a_worker_that_is_gone_is_resolved_by_another(shop, via, hand, monkeypatch):
    monkeypatch.setattr(sender_module, "SILENT_SECONDS", 0.2)

    @shop.task(via=via)
    def carried() -> None: ...

    carried.enqueue()
    with running(shop.worker()):
        eventually(lambda: [each for each in shop.alerts() if each.is_open])
    hand.take()[0].acknowledge()

    with running(shop.worker()):
        hand.take()[0].answer()
        eventually(lambda: not [each for each in shop.alerts() if each.is_open])


def test_the_rows_of_each_shard_are_carried(via, database_url, second_database_url, hand):
    shop = App(database_url, second_database_url, grace="1s")
    shop.migrate()

    @shop.task(via=via, keep="1d")
    def carried(number: int) -> int: ...

    refs = carried.enqueue_many([{"number": number} for number in range(20)])
    with running(shop.worker()):
        done = 0
        while done < 20:
            for message in hand.take(1):
                message.answer(result=message["arguments"]["number"])
                done += 1
        assert [ref.result(timeout=10) for ref in refs] == list(range(20))
    shop.close()


def test_another_carrier_is_an_object_of_its_own(shop):
    """The contract is all that a worker knows of the way to consumers."""
    by_hand = ByHand()

    @shop.task(via=by_hand, keep="1d")
    def carried(number: int) -> int: ...

    refs = carried.enqueue_many([{"number": number} for number in range(30)])
    with running(shop.worker()):
        assert [ref.result(timeout=10) for ref in refs] == list(range(30))

    assert by_hand.is_closed


class ByHand(Carrier, Transport):
    """Carries to nowhere: answers what is submitted with the argument."""

    name, address, reply_to = "by hand", "here", "me"

    def __init__(self):
        self.messages = queue.Queue()
        self.is_closed = False

    def connect(self):
        return self

    def submit(self, messages):
        for message in messages:
            self.messages.put(msgspec.json.decode(message.body))
        return Sent(set(range(len(messages))), {})

    def waiting(self):
        return 0

    def replies(self, *, wait_seconds):
        try:
            found = [self.messages.get(timeout=wait_seconds)]
        except queue.Empty:
            return []
        while not self.messages.empty():
            found.append(self.messages.get())
        return [
            ArrivedReply(
                msgspec.json.encode(
                    {
                        "windlass": 1,
                        "id": each["id"],
                        "outcome": "succeeded",
                        "result": each["arguments"]["number"],
                    }
                )
            )
            for each in found
        ]

    def received(self):
        pass

    def close(self):
        self.is_closed = True


def test_a_drain_runs_carried_kinds_itself(shop):
    @shop.task(via=windlass.queue.Queue("amqp://127.0.0.1:1", "nobody"), keep="1d")
    def carried() -> str:
        return "here"

    ref = carried.enqueue()

    shop.drain()

    assert ref.result() == "here"


def test_via_must_be_a_queue(shop):
    with pytest.raises(windlass.BadDeclaration, match="via= is a str, which does not carry tasks"):

        @shop.task(via="amqp://host")
        def carried() -> None: ...
