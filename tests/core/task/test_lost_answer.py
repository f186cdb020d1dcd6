"""The commit of an enqueue was not answered: the task runs once, and the caller gets its id."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest

from tests.core.run.working import sql
from tests.server.relay import Relay
from tests.table import tasks
from tests.wait import eventually
from windlass import App, DatabaseUnavailable, Status, Task
from windlass.app import FACES
from windlass.core.maintenance import Maintenance
from windlass.core.task.store.task import COPY_FROM
from windlass.database.database import DatabaseError
from windlass.database.gone import KEEP_TRACES
from windlass.value.task import NewTask

MARK = "a text by which the relay knows the call"


@pytest.fixture
def relay(app: App) -> Iterator[Relay]:
    port = app.database.url.port
    if port is None:
        pytest.skip("SQLite is in the process: no answer of it can be lost")
    with Relay(port) as relay:
        yield relay


@pytest.fixture
def ran() -> list[str]:
    return []


def declare(app: App, ran: list[str], **options: str) -> Task[..., None]:
    @app.task(**options)
    def note(text: str) -> None:
        ran.append(text)

    return note


@pytest.fixture
def keep() -> str:
    return "0s"


@pytest.fixture
def near(app: App, ran: list[str], keep: str) -> Task[..., None]:
    return declare(app, ran, keep=keep)


@pytest.fixture
def far_app(relay: Relay, database_url: str, clock) -> Iterator[App]:
    with closing(App(relay.url(database_url), clock=clock)) as app:
        yield app


@pytest.fixture
def far(far_app: App, near: Task[..., None], ran: list[str], keep: str) -> Task[..., None]:
    """The same kind by way of the relay, with a connection and numbers."""
    far = declare(far_app, ran, keep=keep)
    # Each block of numbers is twice as large as the one before: at least 200 are left.
    for size in (1, 64, 128):
        far.enqueue_many([{"text": "warm"}] * size)
    far_app.drain()
    ran.clear()
    return far


@pytest.fixture
def commit(database_engine: str) -> bytes:
    """How the driver says it; the word alone is in `read committed`, too."""
    return b"commit\x00" if database_engine == "postgresql" else b"\x03commit"


@pytest.fixture
def alone(database_engine: str, commit: bytes) -> bytes:
    """What a single enqueue says last: on PostgreSQL, one statement commits by itself."""
    return MARK.encode() if database_engine == "postgresql" else commit


@contextmanager
def unanswered(relay: Relay, at: bytes, call: Callable[[], object]) -> Iterator[Future]:
    """`call`, whose next words `at` have no answer; it tries again when the block has ended."""
    with ThreadPoolExecutor(1) as thread:
        relay.lose_answer_and_refuse(at)
        made = thread.submit(call)
        try:
            eventually(lambda: relay.lost == 1 or made.done(), what="an answer that is lost")
            assert relay.lost == 1
            yield made
        finally:
            relay.heal()


@pytest.mark.parametrize("number", range(10))
def test_a_task_that_was_run_and_deleted_before_the_answer_runs_once(
    app, far, relay, alone, ran, number
):
    with unanswered(relay, alone, lambda: far.enqueue(MARK)) as made:
        (first,) = tasks(app)
        app.drain()
        assert tasks(app) == []
    ref = made.result()

    assert ref.id == first["id"]
    assert ref.status() is Status.SUCCEEDED
    app.drain()
    assert ran == [MARK]


@pytest.mark.parametrize("size", [2, COPY_FROM])
def test_a_page_of_which_some_were_run_is_written_once(app, far, relay, commit, ran, clock, size):
    texts = [f"m{number}" for number in range(size)]

    def call():
        return far.enqueue_many([{"text": text} for text in texts])

    with unanswered(relay, commit, call) as made:
        first = [row["id"] for row in tasks(app)]
        sql(app, "update windlass_task set due_at = due_at + 3600000000 where id % 2 = 0")
        app.drain()
        assert len(tasks(app)) == size // 2
    refs = made.result()

    assert sorted(ref.id for ref in refs) == sorted(first)
    clock.forward("2h")
    app.drain()
    assert sorted(ran) == sorted(texts)


def test_in_tables_of_the_first_release_a_page_that_waits_is_written_once(
    app, far, far_app, relay, commit, ran
):
    far_app.database.dialect.has_tables = lambda version: version <= "0002"
    texts = [f"m{number}" for number in range(COPY_FROM)]

    relay.lose_answer(commit)
    far.enqueue_many([{"text": text} for text in texts])

    assert relay.lost == 1
    app.drain()
    assert sorted(ran) == sorted(texts)


@pytest.mark.parametrize("on_conflict", ["skip", "raise", "replace"])
def test_a_key_that_is_taken_again_is_left_alone(app, near, far, relay, alone, ran, on_conflict):
    keyed = far.using(key="order-7", on_conflict=on_conflict)

    with unanswered(relay, alone, lambda: keyed.enqueue(MARK)) as made:
        app.drain()
        other = near.using(key="order-7").enqueue("somebody else's")
    ref = made.result()

    assert ref.id != other.id
    assert ref.status() is Status.SUCCEEDED
    app.drain()
    assert ran == [MARK, "somebody else's"]


@pytest.mark.parametrize("keep", ["0s", "1d"])
def test_a_replacement_that_was_run_is_not_made_again(app, near, far, relay, commit, ran, keep):
    held = near.using(key="order-7").enqueue("old")
    keyed = far.using(key="order-7", on_conflict="replace")

    with unanswered(relay, commit, lambda: keyed.enqueue("new")) as made:
        app.drain()
    ref = made.result()

    assert ref.id == held.id
    assert ref.status() is Status.SUCCEEDED
    app.drain()
    assert ran == ["new"]


def test_a_replacement_that_did_not_count_is_made_although_the_old_task_was_run(
    app, near, far, relay, ran
):
    near.using(key="order-7").enqueue("old")
    keyed = far.using(key="order-7", on_conflict="replace")

    # The server got the update and no commit, so it rolls back.
    with unanswered(relay, b"update windlass_task", lambda: keyed.enqueue("new")) as made:
        eventually(lambda: app.drain() or ran == ["old"], what="the run of the old task")
    made.result()

    app.drain()
    assert ran == ["old", "new"]


def test_a_call_that_did_not_count_is_made_by_the_next_try(app, far, relay, ran, database_engine):
    if database_engine == "postgresql":
        pytest.skip("the insert is the commit")

    with unanswered(relay, b"insert into windlass_task", lambda: far.enqueue(MARK)) as made:
        app.drain()
        assert ran == []
    made.result()

    app.drain()
    assert ran == [MARK]


@pytest.mark.parametrize("keep", ["1s"])
def test_a_kept_row_that_was_pruned_counts(app, far, relay, alone, ran, clock):
    with unanswered(relay, alone, lambda: far.enqueue(MARK)) as made:
        app.drain()
        clock.forward("2s")
        Maintenance(app.database, clock, FACES, numbers=app.fleet.shards[0].numbers).tick()
        assert tasks(app) == []
    made.result()

    app.drain()
    assert ran == [MARK]


def test_a_try_that_comes_when_the_traces_are_gone_says_that_nobody_knows(
    app, far, relay, alone, ran, clock
):
    with unanswered(relay, alone, lambda: far.enqueue(MARK)) as made:
        app.drain()
        clock.advance(KEEP_TRACES + 1)
        Maintenance(app.database, clock, FACES, numbers=app.fleet.shards[0].numbers).tick()

    with pytest.raises(DatabaseUnavailable, match="it is not known whether the call counted"):
        made.result()

    app.drain()
    assert ran == [MARK]
    # New calls are not concerned.
    far.enqueue("next")
    app.drain()
    assert ran == [MARK, "next"]


def test_a_caller_who_gives_up_is_told_that_it_may_have_counted(app, far, far_app, relay, alone):
    relay.lose_answer(alone)

    with (
        far_app.database.hasty(1),
        pytest.raises(DatabaseUnavailable, match="it is not known whether the call counted"),
    ):
        far.enqueue(MARK)

    assert len(tasks(app)) == 1


def test_a_server_that_refuses_a_row_has_answered(app, near, database_engine):
    if database_engine != "postgresql":
        pytest.skip("no statement commits alone")
    sql(app, "alter table windlass_task add constraint low check (priority < 5)")

    with pytest.raises(DatabaseError, match="violates check constraint"):
        near.using(priority=9).enqueue("refused")

    assert tasks(app) == []


def test_a_statement_that_runs_after_its_caller_gave_it_up_changes_nothing(
    app, near, ran, database_engine
):
    """A server that stood still reads it from its socket when the next try was run already."""
    if database_engine != "postgresql":
        pytest.skip("no statement commits alone")
    ref = near.enqueue("once")
    (row,) = tasks(app)
    late = NewTask(**{name: row[name] for name in NewTask.__struct_fields__})
    app.drain()
    assert tasks(app) == []

    is_written = app.database.single(
        lambda connection: app.database.dialect.insert_alone(connection, late, notify=False)
    )

    assert (is_written, late.id) == (False, ref.id)
    app.drain()
    assert ran == ["once"]


def test_a_flow_run_that_was_run_and_pruned_counts(app, far_app, relay, commit, ran, clock):
    def declare_flow(app: App):
        step = declare(app, ran)

        @app.flow(keep="1s")
        def trip(flow) -> None:
            flow.add(step, "step")

        return trip

    declare_flow(app)
    trip = declare_flow(far_app)
    trip.start()
    far_app.drain()
    ran.clear()

    with unanswered(relay, commit, trip.start) as made:
        app.drain()
        clock.forward("2s")
        Maintenance(app.database, clock, FACES, numbers=app.fleet.shards[0].numbers).tick()
        assert tasks(app) == []
    made.result()

    app.drain()
    assert ran == ["step"]
