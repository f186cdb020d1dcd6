"""context(): what a handler may know of its run, and ask of it."""

import asyncio
import sys

import pytest
from sqlalchemy import JSON, Column, MetaData, Table, select, text

from tests.core.fetch.dead import lose
from tests.table import count, failures, task
from windlass import NoContext, Retry, Snooze, Status, TaskFailed, context
from windlass.clock import to_datetime
from windlass.operate.task import operate

pytestmark = pytest.mark.mostly("sqlite", "mariadb")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_handler_knows_its_task(app, is_async):
    def facts():
        me = context()
        return [me.task_id, me.kind, me.key, me.attempt, me.due_at.isoformat()]

    async def afacts():
        await asyncio.sleep(0)
        return facts()

    task_of = app.task(name="facts", keep="1h")(afacts if is_async else facts)
    keyed, plain = task_of.using(key="k").enqueue(), task_of.enqueue()
    due = {ref.id: to_datetime(task(app, ref)["due_at"]).isoformat() for ref in (keyed, plain)}
    app.drain()

    assert keyed.result() == [keyed.id, "facts", "k", 1, due[keyed.id]]
    assert plain.result() == [plain.id, "facts", None, 1, due[plain.id]]


def test_each_of_many_concurrent_handlers_knows_its_own_task(app):
    seen = {}

    @app.task
    async def work(number: int) -> None:
        before = context().task_id
        await asyncio.sleep(0.001)
        seen[number] = (before, context().task_id)

    refs = work.enqueue_many([{"number": number} for number in range(50)])
    app.drain()

    assert seen == {number: (ref.id, ref.id) for number, ref in enumerate(refs)}


def test_outside_a_handler_there_is_no_context(app):
    with pytest.raises(NoContext, match="outside a handler"):
        context()


async def test_after_a_handler_there_is_no_context_on_the_loop(app):
    @app.task
    async def work() -> None: ...

    await work.aenqueue()
    await app.adrain()

    with pytest.raises(NoContext):
        context()


def test_work_that_a_handler_hands_to_a_thread_keeps_its_context(app):
    @app.task
    async def work() -> int:
        return await asyncio.to_thread(lambda: context().task_id)

    ref = work.enqueue()
    app.drain()

    assert ref.result() == ref.id


def test_the_fence_grows_with_every_attempt_of_whatever_cause(app, clock):
    fences = []

    @app.task(retries=5, backoff="1s")
    def work() -> None:
        fences.append(context().fence)
        match len(fences):
            case 1:
                raise ValueError
            case 2:
                raise Retry(after="0s")
            case 3:
                raise Snooze("1s")
            case 4:
                raise Snooze("1h")

    ref = work.using(key="k").enqueue()
    for _ in range(4):
        app.drain()
        clock.forward("2s")
    clock.forward("1h")
    (held,) = lose(app)
    fences.append(held.started_at)
    app.drain()
    work.using(key="k", on_conflict="replace").enqueue()
    app.drain()
    ref.cancel()

    assert len(fences) == 7
    assert fences == sorted(set(fences))


def test_the_fence_grows_when_an_operator_retries(app):
    fences = []

    @app.task
    def work() -> None:
        fences.append(context().fence)
        raise ValueError

    ref = work.enqueue()
    for _ in range(3):
        app.drain()
        operate.retry(app.fleet.single, ref.id)

    assert fences == sorted(set(fences))
    assert len(fences) == 3


@pytest.fixture
def effects(app):
    """A table of the user's own in the same database, and what is in it."""
    app.prepare()
    app.database.write(
        lambda connection: connection.execute(text("create table effect (task_id bigint)"))
    )
    return lambda: app.database.read(
        lambda connection: connection.scalars(text("select task_id from effect")).all()
    )


def write_effect(connection):
    connection.execute(text("insert into effect values (:id)"), {"id": 7})


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_on_finish_writes_with_the_success_exactly_once(app, effects, is_async):
    def body():
        number = context().task_id
        context().on_finish(
            lambda connection: connection.execute(
                text("insert into effect values (:id)"), {"id": number}
            )
        )

    async def abody():
        body()

    work = app.task(name="work")(abody if is_async else body)
    refs = work.enqueue_many([{}] * 5)
    app.drain()

    assert sorted(effects()) == sorted(ref.id for ref in refs)
    assert count(app) == 0


def test_on_finish_may_be_asked_for_more_than_once_and_keeps_the_order(app, effects):
    order = []

    @app.task
    def work() -> None:
        for number in (1, 2, 3):
            context().on_finish(lambda connection, number=number: order.append(number))

    work.enqueue()
    app.drain()

    assert order == [1, 2, 3]


@pytest.mark.mostly("postgresql")
def test_on_finish_reads_documents_and_tables_as_everywhere(app):
    ours = Table("document", MetaData(), Column("body", JSON))
    app.database.write(ours.metadata.create_all)
    seen = []

    def look(connection):
        connection.execute(ours.insert(), [{"body": {"a": [1]}}])
        seen.append(connection.scalar(select(ours.c.body)))
        reflected = MetaData()
        reflected.reflect(connection, only=["document"])
        seen.extend(reflected.tables)

    @app.task
    def work() -> dict[str, int]:
        context().on_finish(look)
        return {"b": 2}

    ref = work.enqueue()
    app.drain()

    assert seen == [{"a": [1]}, "document"]
    assert ref.result() == {"b": 2}


def test_a_failed_run_writes_nothing_and_its_retry_writes_once(app, effects, clock):
    @app.task(retries=1, backoff="1s")
    def work() -> None:
        context().on_finish(write_effect)
        if context().attempt == 1:
            raise ValueError

    work.enqueue()
    app.drain()
    assert effects() == []

    clock.forward("2s")
    app.drain()
    assert effects() == [7]


def test_an_on_finish_that_raises_undoes_everything_and_fails_the_run(app, effects):
    def explode(connection):
        write_effect(connection)
        raise ValueError("no room")

    @app.task
    def work() -> str:
        context().on_finish(write_effect)
        context().on_finish(explode)
        return "done"

    @app.task
    def innocent() -> int:
        return 1

    ref, beside = work.enqueue(), innocent.enqueue()
    app.drain()

    assert effects() == []
    with pytest.raises(TaskFailed, match="ValueError: no room"):
        ref.result()
    assert len(failures(app)) == 1
    assert beside.result() == 1


def test_an_on_finish_that_raises_is_retried_like_any_failure(app, effects, clock):
    @app.task(retries=1, backoff="1s")
    def work() -> str:
        attempt = context().attempt

        def write(connection):
            write_effect(connection)
            if attempt == 1:
                raise ValueError("not yet")

        context().on_finish(write)
        return "done"

    ref = work.enqueue()
    app.drain()
    assert (ref.status(), effects()) == (Status.WAITING, [])

    clock.forward("2s")
    app.drain()
    assert (ref.result(), effects()) == ("done", [7])


def test_an_on_finish_that_breaks_a_constraint_fails_only_its_own_task(app, effects):
    @app.task
    def work() -> None:
        context().on_finish(
            lambda connection: connection.execute(text("insert into no_such_table values (1)"))
        )

    @app.task
    def innocent() -> int:
        return 1

    bad, good = work.enqueue(), innocent.enqueue()
    app.drain()

    assert bad.status() is Status.FAILED
    assert good.result() == 1


def test_an_on_finish_that_exits_fails_its_task_and_not_the_worker(app, effects):
    @app.task
    def work() -> None:
        context().on_finish(lambda connection: sys.exit(1))

    ref = work.enqueue()
    app.drain()

    assert ref.status() is Status.FAILED


def test_on_finish_is_not_called_for_a_task_that_was_taken_away(app, effects):
    @app.task
    def work() -> None:
        context().on_finish(write_effect)
        app.ref(context().task_id).cancel("too late")

    ref = work.enqueue()
    app.drain()

    assert ref.status() is Status.CANCELLED
    assert effects() == []


def test_on_finish_may_enqueue_in_the_same_transaction(app):
    seen = []

    @app.task
    def second() -> None:
        seen.append("second")

    @app.task
    def first() -> None:
        context().on_finish(lambda connection: second.using(conn=connection).enqueue())

    first.enqueue()
    app.drain()

    assert seen == ["second"]
    assert count(app) == 0


def test_a_callback_that_always_loses_its_connection_fails_its_run(app):
    @app.task
    def work() -> None:
        context().on_finish(lambda connection: connection.invalidate())

    ref = work.enqueue()
    app.drain()

    assert ref.status() is Status.FAILED
