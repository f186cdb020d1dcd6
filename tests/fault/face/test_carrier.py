"""Workers, consumers and the broker are killed while tasks are carried: each row ends once."""

import random
from contextlib import closing

import pytest

from tests.fault.face.carried import CarrierCrew
from tests.fixture.broker import BROKERS, skip_without_broker

TASKS = 200


@pytest.fixture(params=["rabbitmq", "redis"])
def broker(request, pools):
    """A broker that the test may kill. It keeps what it has confirmed."""
    skip_without_broker(request.param, pools.missing)
    with BROKERS[request.param](fast=False) as server:
        yield server


@pytest.fixture
def crew(database_engine, site_of, tmp_path, broker):
    with closing(CarrierCrew(tmp_path, site_of(database_engine).url, broker.url)) as crew:
        yield crew


def enqueue(crew, count=TASKS, seconds=0.05):
    refs = crew.shop.carried.enqueue_many([{"seconds": seconds} for _ in range(count)])
    return {ref.id for ref in refs}


@pytest.mark.mostly("sqlite")
def test_whoever_is_killed_each_row_ends_once_and_each_task_ran(crew, broker):
    workers = [crew.worker(), crew.worker()]
    consumers = [crew.consumer(), crew.consumer()]
    ids = enqueue(crew)

    crew.wait_ended(TASKS // 10)
    consumers[0].kill()
    crew.consumer()
    crew.wait_ended(TASKS // 4)
    workers[0].kill()
    crew.wait_ended(TASKS // 2)
    broker.kill()
    broker.start()
    crew.wait_ended(TASKS * 3 // 4)
    assert consumers[1].terminate() == 0
    crew.wait_ended(TASKS)

    crew.check(ids)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_campaign_of_kills_under_load_ends_each_row_once(crew, broker, seed):
    """Someone is killed, stopped for longer than a worker may be silent, or started anew."""
    chance = random.Random(seed)
    workers = [crew.worker(), crew.worker()]
    consumers = [crew.consumer(), crew.consumer(), crew.consumer()]
    ids = enqueue(crew, 1_500, seconds=0.1)

    for done in range(100, 1_500, 100):
        crew.wait_ended(done, 120.0)
        what = chance.choice(("consumer", "consumer", "worker", "stop", "broker", "leave"))
        if what == "broker":
            broker.kill()
            broker.start()
            continue
        among, start = (consumers, crew.consumer)
        if what == "worker" or (what in ("stop", "leave") and chance.random() < 0.5):
            among, start = (workers, crew.worker)
        place = chance.randrange(len(among))
        if what == "leave":
            assert among[place].terminate(40.0) == 0
        elif what == "stop":
            crew.pause(among[place])
        else:
            among[place].kill()
        # One that was stopped comes back later, beside the one in its place.
        chosen, among[place] = among[place], start()
        if what == "stop":
            chosen.resume()
    crew.wait_ended(1_500, 120.0)

    crew.check(ids)
