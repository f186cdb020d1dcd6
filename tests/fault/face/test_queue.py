"""Brokers and workers are killed under load: each message has its effects once."""

import json
import random
import threading
from contextlib import suppress
from itertools import count

import pytest

import windlass
from tests.fault.crew import Process
from tests.fault.face import laned
from tests.fault.face.consuming import (
    KILLER,
    MODULE,
    all_of,
    app_at,
    check_effects,
    effects,
    first_order,
    make_table,
)
from tests.fixture.broker import skip_without_broker
from tests.server import RabbitMQ, Redis
from tests.table import count as count_rows
from tests.wait import eventually
from windlass.database.schema import outbox
from windlass.queue.broker import broker_of
from windlass.queue.model.message import Outgoing

SERVERS = {"rabbitmq": RabbitMQ, "redis": Redis}
# What a dead consumer of Redis had taken comes back after this many seconds.
OPTIONS = {"rabbitmq": {}, "redis": {"visibility_timeout": 3}}


class Post:
    """A broker that may be killed, a database, and workers between them."""

    def __init__(self, folder, url, kind):
        self.folder, self.url = folder, url
        self.server = SERVERS[kind](fast=False)
        self.server.start()
        self.options = OPTIONS[kind]
        self.app, self.incoming, self.outgoing = app_at(url, self.server.url, self.options)
        make_table(self.app)
        source = MODULE.format(url=url, broker=self.server.url, options=self.options)
        (folder / "served.py").write_text(source)
        self.processes = []
        self._numbers = count(1)

    def start_worker(self, module="served"):
        name = f"worker-{next(self._numbers)}"
        command = ["windlass", "worker", f"{module}:app", "--json"]
        process = Process(command, folder=self.folder, name=name, url=self.url)
        self.processes.append(process)
        eventually(process.has_joined, 60.0, what="a worker that has joined")
        return process

    def send(self, names):
        """Send messages, again and again until the broker has confirmed each of them."""
        left = [
            Outgoing(name, json.dumps({"name": name, "key": name[-1]}).encode()) for name in names
        ]
        while left:
            with suppress(windlass.BrokerUnavailable), broker_of(self.incoming) as broker:
                sent = broker.publish(self.incoming, left[:20])
                done = {left[place].id for place in sent.confirmed}
                left = [each for each in left if each.id not in done]

    def wait_for_effects(self, least, timeout=60.0):
        eventually(
            lambda: sum(effects(self.app)[0].values()) >= least,
            timeout,
            what=f"{least} messages that had their effects",
        )

    def wait_sent(self, timeout=60.0):
        eventually(lambda: count_rows(self.app, outbox) == 0, timeout, what="an empty outbox")

    def close(self):
        for process in self.processes:
            process.kill()
        self.app.close()
        self.server.close()


@pytest.fixture
def post_of(site_of, database_engine, tmp_path, pools):
    made = []

    def make(kind):
        skip_without_broker(kind, pools.missing)
        made.append(Post(tmp_path, site_of(database_engine).url, kind))
        return made[-1]

    yield make
    for post in made:
        post.close()


def test_a_killed_worker_and_a_killed_broker_change_no_effect(post_of):
    post = post_of("redis")
    names = [f"m{number}" for number in range(120)]
    post.start_worker()
    post.send(names[:60])
    post.wait_for_effects(10)

    post.processes[0].kill()
    post.start_worker()
    post.wait_for_effects(30)
    post.server.kill()
    post.server.start()
    post.send(names)

    post.wait_for_effects(len(names))
    post.wait_sent()
    check_effects(post.app, post.outgoing, names)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVERS)
def test_whoever_dies_each_message_has_its_effects_once(post_of, kind):
    post = post_of(kind)
    names = [f"m{number}" for number in range(1_500)]
    sender = threading.Thread(target=lambda: [post.send(names), post.send(names[::3])])
    chance = random.Random(7)
    for _ in range(2):
        post.start_worker()
    sender.start()

    for turn in range(8):
        post.wait_for_effects(min(100 * (turn + 1), len(names)), 120.0)
        victim = chance.choice([each for each in post.processes if each.is_running])
        match chance.choice(("worker", "broker", "pause", "both")):
            case "worker":
                victim.kill()
                post.start_worker()
            case "broker":
                post.server.kill()
                post.server.start()
            case "pause":
                victim.pause()
                post.start_worker()
                victim.resume()
            case "both":
                post.server.kill()
                victim.kill()
                post.server.start()
                post.start_worker()
    sender.join(120)
    assert not sender.is_alive()

    post.wait_for_effects(len(names), 180.0)
    post.wait_sent(180.0)
    eventually(lambda: depth_of(post.incoming) == 0, 60, what="an empty queue")
    check_effects(post.app, post.outgoing, names)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVERS)
def test_published_messages_arrive_in_order_per_key_whoever_dies(post_of, kind):
    post = post_of(kind)
    for _ in range(2):
        post.start_worker()
    wanted = {key: [] for key in "abcd"}
    for turn in range(4):
        for number in range(100):
            key = "abcd"[number % 4]
            name = f"{key}-{turn}-{number}"
            with post.app.database.engine.connect() as connection:
                writing = post.app.database.dialect.writing(connection)
                with writing.begin() as transaction:
                    post.app.publish(post.outgoing, name, key=key, conn=writing)
                    if number % 5 == 0:
                        transaction.rollback()
                        continue
            wanted[key].append(name)
        post.processes[-1].kill()
        post.server.kill()
        post.server.start()
        post.start_worker()

    post.wait_sent(120.0)
    found = [
        json.loads(each.body)
        for each in first_order(all_of(post.outgoing, sum(map(len, wanted.values()))))
    ]
    assert {key: [each for each in found if each[0] == key] for key in wanted} == wanted


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVERS)
def test_a_message_that_kills_its_workers_fails_and_costs_no_other_message(post_of, kind):
    post = post_of(kind)
    names = [f"m{number}" for number in range(100)]
    for _ in range(2):
        post.start_worker()
    post.send([*names[:50], KILLER, *names[50:]])
    deaths = []

    def has_failed():
        for each in [each for each in post.processes if not each.is_running]:
            post.processes.remove(each)
            deaths.append(each.wait())
            post.start_worker()
        return [each for each in post.app.on_event.failed() if each.failed_at]

    (failed,) = eventually(has_failed, 400, what="a failed message")
    post.wait_for_effects(len(names), 60.0)
    post.wait_sent()

    assert failed.message_id == KILLER
    assert "its workers died while they handled it" in failed.error
    # The first time nobody had counted, then three times in a row.
    assert deaths == [7] * 4
    check_effects(post.app, post.outgoing, names)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVERS)
def test_messages_of_one_lane_are_handled_in_order_whichever_worker_dies(post_of, kind):
    post = post_of(kind)
    queue = laned.lane_queue(post.server.url, post.options)
    source = laned.MODULE.format(url=post.url, broker=post.server.url, options=post.options)
    (post.folder / "laned.py").write_text(source)
    laned.make_lane_table(post.app)
    wanted = {key: list(range(60)) for key in "abcdef"}
    messages = [
        Outgoing(f"{key}-{number}", laned.body(key, number))
        for number in range(60)
        for key in wanted
    ]
    with broker_of(queue) as broker:
        assert len(broker.publish(queue, messages).confirmed) == len(messages)

    for _ in range(3):
        post.start_worker("laned")
    for turn in range(4):
        eventually(
            lambda least=60 * turn + 20: sum(map(len, laned.orders(post.app).values())) >= least, 90
        )
        # The oldest one has the lanes.
        next(each for each in post.processes if each.is_running).kill()
        post.start_worker("laned")
        if turn == 2:
            post.server.kill()
            post.server.start()

    eventually(lambda: sum(map(len, laned.orders(post.app).values())) >= len(messages), 120)
    assert laned.orders(post.app) == wanted


@pytest.mark.slow
@pytest.mark.mostly("postgresql")
def test_a_broker_that_is_away_for_a_minute_costs_nothing_and_stops_nothing_else(post_of):
    post = post_of("rabbitmq")
    post.start_worker()
    names = [f"m{number}" for number in range(50)]
    post.send(names[:25])
    post.wait_for_effects(25)
    post.server.kill()
    post.app.publish_many(post.outgoing, [{"name": f"late-{n}"} for n in range(20)])
    away = threading.Event()

    others = []
    for number in range(12):
        others.append(post.app.other.enqueue(number))
        away.wait(5)
    for ref in others:
        ref.result(timeout=10)
    assert [alert.what for alert in post.app.alerts() if alert.is_open] == ["broker", "broker"]
    post.server.start()
    post.send(names)

    post.wait_for_effects(50)
    post.wait_sent()
    rows, _ = effects(post.app)
    assert set(rows.values()) == {1}
    bodies = [json.loads(each.body)["name"] for each in first_order(all_of(post.outgoing, 70))]
    assert [each for each in bodies if each.startswith("late")] == [f"late-{n}" for n in range(20)]


@pytest.mark.mostly("sqlite")
def test_a_worker_with_a_wrong_password_goes_on_with_its_other_work(post_of):
    post = post_of("redis")
    wrong = post.server.url_with("wrong-secret")
    source = MODULE.format(url=post.url, broker=wrong, options=post.options)
    (post.folder / "wrong.py").write_text(source)
    worker = post.start_worker("wrong")
    eventually(lambda: worker.events("queue.failed"), 30, what="an error that is told")

    post.app.other.enqueue(7).result(timeout=20)

    assert worker.is_running
    assert "check user and password" in worker.log
    assert "wrong-secret" not in worker.log
    eventually(
        lambda: any(alert.what == "broker" for alert in post.app.alerts()), 20, what="an alert"
    )


def depth_of(queue):
    with broker_of(queue) as broker:
        return broker.depth(queue)
