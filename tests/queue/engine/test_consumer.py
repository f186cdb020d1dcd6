"""A consumer runs the handlers of an app, without its database."""

import asyncio
import threading
import time

import msgspec
import pytest

import windlass
from tests.fixture.broker import fresh_queue
from tests.queue.engine.hand import running, sender_of
from tests.wait import eventually
from windlass import App, Keys, Status
from windlass.queue import Queue
from windlass.queue.broker import broker_of
from windlass.queue.model.message import Outgoing
from windlass.queue.operate.carrier import make_consumer

# Nothing listens there: a consumer that asked its database for anything would fail.
NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"


@pytest.fixture
def via(redis):
    return fresh_queue(redis)


@pytest.fixture
def app():
    return App(NOWHERE)


@pytest.fixture
def wire(via):
    with Wire(via) as wire:
        yield wire


class Wire:
    """What a worker would send to consumers, and hear from them."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.replies = Queue(queue.url, f"{queue.name}-reply")
        self.broker = broker_of(queue)
        self.broker.declare(self.replies)
        self.subscription = self.broker.subscribe(self.replies, prefetch=100)
        self.sent = 0

    def send(self, kind: str, arguments: object, **members: object) -> str:
        """Send a message of the protocol; its id."""
        self.sent += 1
        body = {
            "windlass": 1,
            "id": f"m{self.sent}",
            "kind": kind,
            "arguments": arguments,
            "reply_to": self.replies.name,
            "task": 7,
            "attempt": 1,
            "tries": 1,
            "fence": 12,
            "due_at": 1.5,
            "timeout": 600.0,
            "deadline": time.time() + 1_200,
            **members,
        }
        self.put(msgspec.json.encode(body))
        return str(body["id"])

    def put(self, body: bytes, **properties: str) -> None:
        assert self.broker.publish(self.queue, [Outgoing("m", body, **properties)]).confirmed

    def hear(self, count: int = 1) -> list[dict]:
        """The next replies."""
        found = []

        def heard() -> bool:
            taken = self.subscription.take(count - len(found), wait_seconds=0.2)
            self.subscription.acknowledge(taken)
            found.extend(msgspec.json.decode(each.body) for each in taken)
            return len(found) >= count

        eventually(heard, 15.0, what="a reply")
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.broker.close()


def consumer(app, via, **options):
    return running(make_consumer(app.registry, via.name, **{"grace": "1s", **options}))


def test_sync_and_async_handlers_run_with_their_context(app, via, wire):
    seen = {}

    def note():
        run = windlass.context()
        seen[run.kind] = (run.task_id, run.key, run.attempt, run.fence, run.due_at.timestamp())
        assert run.deadline is not None
        return seen[run.kind]

    @app.task(via=via, timeout="30s")
    def plain(number: int) -> str:
        note()
        return f"{number} on {threading.current_thread().name}"

    @app.task(via=via, timeout="30s")
    async def waiting(number: int) -> str:
        await asyncio.sleep(0)
        note()
        return f"{number} on the loop"

    with consumer(app, via):
        wire.send("plain", {"number": 1}, task=5, key="k", attempt=3, tries=2, fence=99)
        wire.send("waiting", {"number": 2}, task=6, key="l")
        replies = {reply["id"]: reply for reply in wire.hear(2)}

    assert replies["m1"] == {
        "windlass": 1,
        "id": "m1",
        "outcome": "succeeded",
        "result": "1 on windlass-handler",
    }
    assert replies["m2"]["result"] == "2 on the loop"
    assert seen == {"plain": (5, "k", 3, 99, 1.5), "waiting": (6, "l", 1, 12, 1.5)}


def test_what_a_handler_raises_comes_back_as_the_worker_would_have_judged_it(app, via, wire):
    def fail(error):
        raise error

    @app.task(via=via, retries={ValueError: 2}, backoff="1h")
    def carried(what: str) -> None:
        fail(
            {
                "value": ValueError("try again"),
                "key": KeyError("never"),
                "retry": windlass.Retry("later", after="90s"),
                "cancel": windlass.Cancel("sold out"),
                "snooze": windlass.Snooze("1h"),
                "overload": windlass.Overloaded("429", retry_after="7s"),
            }[what]
        )

    with consumer(app, via) as made:
        said = {}
        for what in ("value", "key", "retry", "cancel", "snooze", "overload"):
            wire.send("carried", {"what": what})
            (said[what],) = wire.hear()
        wire.send("carried", {"what": "value"}, attempt=3, tries=3)
        (last,) = wire.hear()

    assert said["value"]["outcome"] == "retry"
    assert 2_000 < said["value"]["after"] < 5_000
    assert said["value"]["error"] == "ValueError: try again"
    assert "in fail" in said["value"]["trace"]
    assert (said["key"]["outcome"], said["key"]["final"]) == ("failed", True)
    assert (said["retry"]["outcome"], said["retry"]["after"]) == ("retry", 90)
    assert (said["cancel"]["outcome"], said["cancel"]["error"]) == ("cancelled", "sold out")
    assert (said["snooze"]["outcome"], said["snooze"]["after"]) == ("snoozed", 3600)
    assert (said["overload"]["outcome"], said["overload"]["after"]) == ("overloaded", 7)
    assert "429" in said["overload"]["error"]
    assert (last["outcome"], last["final"]) == ("failed", True)
    assert made.pulse().failed == 4


def test_items_are_given_by_position_as_in_a_worker(app, via, wire):
    @app.rolling(every="1d", via=via)
    def level(code) -> str:
        return f"seen {code}"

    @app.sweep(Keys(1, 3), via=via)
    async def offer(row) -> str:
        return f"offered {row}"

    with consumer(app, via):
        wire.send("level", {"any": "bolt"})
        assert wire.hear()[0]["result"] == "seen bolt"
        wire.send("offer", {"row": {"id": 3}})
        assert wire.hear()[0]["result"] == "offered {'id': 3}"


def test_a_handler_that_takes_too_long_times_out_there(app, via, wire):
    @app.task(via=via, timeout="100ms")
    async def slow() -> None:
        await asyncio.sleep(60)

    with consumer(app, via):
        wire.send("slow", {})
        (reply,) = wire.hear()

    assert (reply["outcome"], reply["final"]) == ("failed", True)
    assert reply["error"] == "TimeoutError: the handler did not end within 0.1 s"


def test_what_it_cannot_run_is_refused_and_blocks_nothing(app, via, wire):
    @app.task(via=via)
    def known(number: int) -> int:
        return number

    with consumer(app, via, concurrency=1) as made:
        wire.put(b"\xff not JSON")
        wire.put(b"[" * 200_000)
        wire.put(b'{"windlass": 1}')
        wire.send("unknown", {})
        wire.send("known", {"number": "three"})
        wire.send("known", {"number": 3}, windlass=2)
        wire.put(b'{"windlass": 1, "id": "m9"}', reply_to=wire.replies.name, correlation_id="m9")
        wire.send("known", {"number": 4}, id="odd1", due_at=1e308)
        wire.send("known", {"number": 4}, id="odd2", reply_to="")
        wire.send("known", {"number": 4}, id="odd3", reply_to="amq.none")
        wire.send("known", {"number": 3}, id="m4")
        replies = {reply["id"]: reply for reply in wire.hear(5)}
        eventually(lambda: wire.broker.depth(via) == 0)
        eventually(lambda: not made.intake.errands, what="no message that is left open")

    assert {reply["outcome"] for number, reply in replies.items() if number != "m4"} == {"refused"}
    assert "'unknown'" in replies["m1"]["error"]
    assert "known" in replies["m1"]["error"]
    assert "does not take this: kind 'known': argument 'number'" in replies["m2"]["error"]
    assert "of protocol 2, and this side speaks protocol 1" in replies["m3"]["error"]
    assert "is not as the protocol says" in replies["m9"]["error"]
    assert replies["m4"]["result"] == 3


def test_a_message_that_comes_too_late_does_not_run(app, via, wire):
    ran = []

    @app.task(via=via)
    def known() -> None:
        ran.append(1)

    with consumer(app, via):
        wire.send("known", {}, deadline=time.time() - 1)
        # There is time to begin, and too little to end.
        wire.send("known", {}, timeout=30.0, deadline=time.time() + 20)
        replies = wire.hear(2)

    assert [reply["outcome"] for reply in replies] == ["expired", "expired"]
    assert not ran


def test_what_is_delivered_again_here_does_not_run_twice(app, rabbitmq):
    via = fresh_queue(rabbitmq)
    begun, may_end = threading.Semaphore(0), threading.Event()
    runs = []

    @app.task(via=via)
    def long(number: int) -> int:
        runs.append(number)
        begun.release()
        may_end.wait(20)
        return number

    with Wire(via) as wire, consumer(app, via) as made:
        wire.send("long", {"number": 1})
        assert begun.acquire(timeout=20)
        # The broker closes the connection, and gives the message to the next that asks.
        first = made.intake.errands["m1"].delivery
        made.intake._broker._link.drop()
        eventually(lambda: made.intake.errands["m1"].delivery is not first)
        may_end.set()
        assert wire.hear()[0]["result"] == 1
        eventually(lambda: not made.intake.errands)
        # Once more, after its end: the broker has not heard of the acknowledgement.
        wire.put(first.body)
        assert wire.hear()[0]["result"] == 1
        eventually(lambda: wire.broker.depth(via) == 0 and not made.intake.errands)

    assert runs == [1]


def test_a_reply_queue_that_is_gone_blocks_nothing(app, rabbitmq):
    via = fresh_queue(rabbitmq)

    @app.task(via=via)
    def known(number: int) -> int:
        return number

    with Wire(via) as wire, consumer(app, via):
        wire.send("known", {"number": 1}, reply_to="windlass.reply.of-the-dead")
        wire.send("known", {"number": 2})
        assert wire.hear()[0]["result"] == 2
        eventually(lambda: wire.broker.depth(via) == 0)


def test_a_consumer_that_stops_gives_back_what_has_not_begun(app, via, wire):
    begun, may_end = threading.Semaphore(0), threading.Event()

    @app.task(via=via, timeout="30s")
    def long(number: int) -> int:
        begun.release()
        may_end.wait(20)
        return number

    for number in range(3):
        wire.send("long", {"number": number})
    with consumer(app, via, concurrency=1, grace="20s") as made:
        assert begun.acquire(timeout=20)
        eventually(lambda: len(made.intake.errands) == 2)
        made.stop()
        eventually(lambda: wire.broker.depth(via) == 2)
        may_end.set()

    assert [reply["result"] for reply in wire.hear()] == [0]
    assert made.left_cleanly
    assert wire.broker.depth(via) == 2


def test_what_may_run_for_minutes_does_not_wait_in_a_busy_consumer(app, via, wire):
    begun, may_end = threading.Semaphore(0), threading.Event()

    @app.task(via=via, timeout="2m")
    def long(number: int) -> int:
        begun.release()
        may_end.wait(20)
        return number

    for number in range(3):
        wire.send("long", {"number": number})
    with consumer(app, via, concurrency=1) as first, consumer(app, via, concurrency=1) as second:
        assert begun.acquire(timeout=20)
        assert begun.acquire(timeout=20)
        eventually(lambda: wire.broker.depth(via) == 1)
        assert (len(first.intake.errands), len(second.intake.errands)) == (1, 1)
        may_end.set()
        assert sorted(reply["result"] for reply in wire.hear(3)) == [0, 1, 2]


def test_middleware_and_hooks_are_around_handlers_in_the_consumer(app, via, wire):
    seen = []

    @app.on_worker_start
    def begin() -> None:
        seen.append("start")

    @app.on_worker_stop
    def end() -> None:
        seen.append("stop")

    @app.middleware
    def around(call, context):
        seen.append(f"{context.stage} {context.kind}")
        return call()

    @app.task(via=via)
    def known() -> None:
        with pytest.raises(windlass.NoContext, match="carried tasks are written elsewhere"):
            windlass.context().on_finish(print)

    with consumer(app, via):
        wire.send("known", {})
        assert wire.hear()[0]["outcome"] == "succeeded"

    assert seen == ["start", "run known", "stop"]


@pytest.mark.mostly("sqlite")
def test_a_worker_and_a_consumer_do_the_work_of_each_face(database_url, any_broker):
    via = fresh_queue(any_broker)
    shop = App(database_url, grace="5s")

    @shop.rolling(every="1d", via=via)
    def level(code: str) -> str:
        return f"seen {code}"

    @shop.sweep(Keys(1, 200), ranges=4, via=via)
    async def offer(number: int) -> None:
        if number == 77:
            raise LookupError("no offer")

    @shop.sweep(Keys(1, 50), ranges=2, many=True, batch=10, via=via)
    def offers(numbers: list[int]) -> None:
        assert len(numbers) <= 10

    @shop.task(via=via)
    async def add(first: int, second: int) -> int:
        return first + second

    @shop.flow
    def sums(flow, one: int):
        left = flow.add(add, one, 1)
        right = flow.add(add, one, 2)
        flow.add(add, left.result, right.result, name="sum", after=[left, right])

    strokes = []

    @shop.cron("* * * * *", via=via)
    def clock() -> None:
        strokes.append(windlass.context().due_at)

    level.add(f"c{number}" for number in range(200))
    with running(shop.worker()), running(make_consumer(shop.registry, via.name)):
        run = sums.start(10)
        assert run.wait(timeout=20) is Status.SUCCEEDED
        eventually(lambda: level.freshness().never_visited == 0, 20)
        eventually(lambda: level.item("c199").remark == "seen c199", 20)
        eventually(lambda: offer.progress().done == 199 and offer.progress().failed == 1, 20)
        eventually(lambda: offers.progress().done == 50, 20)
        clock.enqueue()
        eventually(lambda: strokes, 20)

    assert {node.name: node.result for node in run.nodes()}["sum"] == 23
    (failure,) = offer.failures()
    assert (failure.key, failure.error) == (77, "LookupError: no offer")
    shop.close()


def test_a_queue_that_no_kind_is_carried_by_is_unknown(app, via):
    @app.task(via=via)
    def known() -> None: ...

    with pytest.raises(windlass.WindlassError, match=f"queues of its kinds: {via.name}"):
        make_consumer(app.registry, "other")


def test_wrong_credentials_end_a_consumer_and_not_a_worker(database_url, rabbitmq):
    via = Queue(rabbitmq.url_as("windlass", "wrong"), "visits")
    shop = App(database_url, grace="1s")

    @shop.task(via=via)
    def carried() -> None: ...

    @shop.task(keep="1d")
    def here() -> str:
        return "ran"

    ref = carried.enqueue()
    with running(shop.worker()) as worker:
        eventually(lambda: sender_of(worker).away)
        assert here.enqueue().result(timeout=10) == "ran"
        assert "it does not let user 'windlass' in" in sender_of(worker).away

    with pytest.raises(windlass.BrokerRefused, match="check user and password"):
        asyncio.run(make_consumer(shop.registry, "visits").run())
    row = shop.find(ref.id)
    assert (row.status, row.attempt) == (Status.WAITING, 0)
    shop.close()
