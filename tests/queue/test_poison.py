"""A message that kills its workers fails in the end, and takes no other message along."""

import sys

import pytest
from sqlalchemy import delete, text, update

from tests.fixture.broker import fresh_queue
from tests.queue.killing import KILLER, declare
from tests.queue.sending import depth, received, send
from tests.spawn import run_forked
from windlass.database.schema import bucket, worker
from windlass.queue.broker import broker_of


@pytest.fixture
def die(app, clock, database_url):
    """Drains a queue in a process that its handler may end; how it ended."""

    def die(queue, many=0):
        clock.forward("40s")
        given = (database_url, queue.url, queue.name, many, clock.now())
        command = [sys.executable, "-m", "tests.queue.killing", *map(str, given)]
        ended = run_forked(command, check=False)
        assert ended.returncode in (0, 7), ended.stderr
        app.database.write(forget)
        clock.forward("40s")
        return ended.returncode

    return die


def forget(connection):
    """Nobody waits until the worker is known to be dead."""
    connection.execute(delete(worker))
    connection.execute(update(bucket).values(owner=None))


@pytest.fixture
def table(app):
    with app.database.engine.begin() as connection:
        connection.execute(text("create table killed (name varchar(40), many integer)"))
    yield
    with app.database.engine.begin() as connection:
        connection.execute(text("drop table killed"))


def written(app):
    with app.database.engine.connect() as connection:
        return sorted(connection.execute(text("select name from killed")).scalars())


@pytest.mark.everywhere
def test_a_message_that_kills_its_worker_fails_alone(app, clock, rabbitmq, die, table):
    queue = fresh_queue(rabbitmq)
    send(queue, *({"n": number} for number in range(8)))

    deaths = 0
    while die(queue, many=10):
        deaths += 1
        assert deaths < 8

    on_event = declare(app, queue, many=10)
    (failed,) = on_event.failed()
    assert failed.message_id == KILLER
    assert "its workers died while they handled it" in failed.error
    # Before its start was counted, with the others, and until it had no life left.
    assert deaths == 1 + 3
    assert written(app) == [f"m{number}" for number in range(8) if f"m{number}" != KILLER]
    assert depth(queue) == 0


@pytest.mark.mostly("sqlite")
def test_messages_that_ran_beside_a_killer_run_alone_and_succeed(app, clock, rabbitmq, die, table):
    queue = fresh_queue(rabbitmq)
    send(queue, *({"n": number} for number in range(8)))

    deaths = 0
    while die(queue):
        deaths += 1
        assert deaths < 8

    on_event = declare(app, queue)
    assert [each.message_id for each in on_event.failed()] == [KILLER]
    assert deaths == 1 + 3
    assert written(app) == [f"m{number}" for number in range(8) if f"m{number}" != KILLER]
    # A person may try it again, with all its lives.
    assert on_event.retry() == 1
    assert die(queue) == 7


@pytest.mark.mostly("sqlite")
def test_a_message_that_is_too_large_to_be_kept_and_kills_its_worker_fails_too(
    app, clock, rabbitmq, die, table
):
    dead = fresh_queue(rabbitmq)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.name}
    queue = fresh_queue(rabbitmq, arguments=arguments)
    with broker_of(dead) as broker:
        broker.declare(dead)
    with broker_of(queue) as broker:
        broker.declare(queue)
    send(queue, b"1" * 9_000_000, b"2" * 9_000_000, b"3", ids=["m2", KILLER, "m4"])

    deaths = 0
    while die(queue):
        deaths += 1
        assert deaths < 8

    (failed,) = declare(app, queue).failed()
    assert failed.message_id == KILLER
    assert failed.is_cut
    assert (failed.body[:3], len(failed.body)) == ("222", 64_000)
    assert "its workers died while they handled it" in failed.error
    assert written(app) == ["m2", "m4"]
    assert [each.id for each in received(dead, 1)] == [KILLER]
