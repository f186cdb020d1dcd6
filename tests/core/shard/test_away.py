"""A shard that is down: the others go on, and reads say what is missing."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import make_url

from tests.core.run.working import listening
from tests.core.shard.fleet import declare_mail, key_for, rows_of
from tests.server.relay import Relay
from tests.wait import eventually
from windlass import App, DatabaseUnavailable, Status, Task, TaskRef
from windlass.operate.shard import operate
from windlass.operate.task import operate as task
from windlass.value.shard import place_of
from windlass.value.task import TaskFilter
from windlass.watch.operate import status


@pytest.fixture
def relay(postgresql_url) -> Iterator[Relay]:
    with Relay(make_url(postgresql_url).port) as relay:
        yield relay


@pytest.fixture
def urls(sqlite_url, postgresql_url, relay) -> list[str]:
    """A shard that stays, and one behind a relay."""
    return [sqlite_url, relay.url(postgresql_url)]


@pytest.fixture
def app(urls) -> Iterator[App]:
    app = App(*urls, dead_after="2s")
    yield app
    app.close()


@contextmanager
def working(app, **settings):
    """A worker over the shards of `app` on a thread of its own."""
    team = app.worker(**settings)
    thread = threading.Thread(target=lambda: asyncio.run(team.run()), daemon=True)
    thread.start()
    try:
        eventually(lambda: team.has_joined, 20.0, what="a worker that joined")
        yield team
    finally:
        team.stop()
        thread.join(30)
    assert not thread.is_alive()


def test_an_enqueue_survives_the_loss_of_a_shard(app, relay):
    mail, stays = declare_mail(app), app.fleet.shards[0]
    before = [mail.enqueue("before") for _ in range(4)]

    relay.refuse()
    began = time.monotonic()
    refs = [mail.enqueue("during") for _ in range(10)]
    many = mail.enqueue_many([{"to": "many"}] * 500)
    took = time.monotonic() - began

    assert took < 3.0
    assert len(rows_of(stays)) == 2 + 10 + 500
    assert len({ref.id for ref in (*before, *refs, *many)}) == 514
    relay.heal()
    eventually(lambda: all(shard.is_up for shard in app.fleet.shards), 10.0, what="a shard back")
    assert {mail.enqueue("after").id >> 48 for _ in range(4)} == {0, 1}


def test_a_key_whose_shard_is_down_is_refused_and_says_which(app, relay):
    mail, (stays, goes) = declare_mail(app), app.fleet.shards
    here, there = (key_for(app, shard, "mail") for shard in (stays, goes))

    relay.refuse()
    ref = mail.using(key=here).enqueue("goes on")
    with pytest.raises(DatabaseUnavailable) as raised:
        mail.using(key=there).enqueue("cannot")

    assert ref.status() is Status.WAITING
    assert raised.value.missing == (goes.name,)
    assert f"belongs to {goes.name}" in str(raised.value)


def test_a_process_that_begins_while_a_shard_is_down_knows_which_keys_are_where(app, relay, urls):
    app.migrate()
    here, there = (key_for(app, shard, "mail") for shard in app.fleet.shards)
    relay.refuse()
    late = App(*urls)
    mail = declare_mail(late)

    began = time.monotonic()
    ref = mail.using(key=here).enqueue("goes on")
    free = mail.enqueue("goes on, too")
    with pytest.raises(DatabaseUnavailable, match="belongs to a shard that does not answer"):
        mail.using(key=there).enqueue("cannot")

    assert time.monotonic() - began < 5.0
    assert {ref.status(), free.status()} == {Status.WAITING}
    relay.heal()
    eventually(lambda: late.fleet.shards[1].row is not None, 10.0, what="the shard opened")
    assert mail.using(key=there).enqueue("can").status() is Status.WAITING
    late.close()


def test_shards_that_come_together_for_the_first_time_must_all_be_there(app, relay):
    relay.refuse()

    with pytest.raises(DatabaseUnavailable, match="all of them must answer"):
        app.prepare()


def test_reads_answer_what_there_is_and_say_what_is_missing(app, relay):
    mail, (_stays, goes) = declare_mail(app), app.fleet.shards

    @app.rolling(every="1d")
    def level(code: str) -> None: ...

    level.add(f"c{number}" for number in range(20))
    refs = [mail.enqueue("m") for _ in range(6)]
    whole = status.look(app.fleet, app.registry)

    relay.refuse()
    found = status.look(app.fleet, app.registry)
    listed = task.listing(app.fleet, TaskFilter(kind="mail"), limit=10)
    fresh = level.freshness()

    assert whole.missing == ()
    assert {kind.kind: kind.waiting for kind in whole.kinds} == {"level": 20, "mail": 6}
    assert found.missing == listed.missing == fresh.missing == (goes.name,)
    assert {kind.kind: kind.waiting for kind in found.kinds}["mail"] == len(listed) == 3
    assert 0 < fresh.total < 20
    assert app.alerts().missing == (goes.name,)
    assert [shard.up for shard in operate.listing(app.fleet)] == [True, False]
    there = next(ref for ref in refs if ref.id >> 48 == goes.row.place)
    with pytest.raises(DatabaseUnavailable, match="in none of the shards that answer"):
        there.status()


def test_a_shard_that_says_nothing_holds_up_nobody_for_long(app, relay, monkeypatch):
    monkeypatch.setattr("windlass.core.shard.shard.READ_SECONDS", 0.5)
    mail, goes = declare_mail(app), app.fleet.shards[1]
    for _ in range(4):
        mail.enqueue("m")

    relay.stall()
    began = time.monotonic()
    found = status.look(app.fleet, app.registry)
    first = time.monotonic() - began
    again = status.look(app.fleet, app.registry)
    for _ in range(10):
        mail.enqueue("goes on")
    rest = time.monotonic() - began - first

    assert found.missing == again.missing == (goes.name,)
    assert first < 1.5
    assert rest < 1.0
    relay.heal()
    eventually(lambda: goes.is_up, 15.0, what="a shard back")


def test_a_switch_says_where_it_could_not_be_set_and_can_be_repeated(app, relay):
    mail, goes = declare_mail(app), app.fleet.shards[1]
    mail.enqueue("m")
    relay.refuse()

    with pytest.raises(DatabaseUnavailable, match="'mail' is paused, but not on") as raised:
        app.pause("mail")
    relay.heal()
    eventually(lambda: goes.is_up, 10.0, what="a shard back")
    app.pause("mail")

    assert raised.value.missing == (goes.name,)
    assert [kind.paused for kind in status.look(app.fleet, app.registry).kinds] == [True]


def test_a_worker_goes_on_with_the_shards_that_are_up_and_comes_back(app, relay):
    mail, (stays, goes) = declare_mail(app), app.fleet.shards
    with working(app):
        first = [mail.enqueue("before") for _ in range(4)]
        assert [ref.result(timeout=10) for ref in first] == ["to before"] * 4

        relay.refuse()
        during = [mail.enqueue("during") for _ in range(50)]
        began = time.monotonic()
        assert [ref.result(timeout=10) for ref in during] == ["to during"] * 50
        took = time.monotonic() - began

        relay.heal()
        eventually(lambda: goes.is_up, 10.0, what="a shard back")
        after = mail.using(key=key_for(app, goes, "mail")).enqueue("after")
        assert after.result(timeout=20) == "to after"

    assert took < 5.0
    assert len(rows_of(stays)) >= 50


def test_a_worker_that_begins_while_a_shard_is_down_serves_it_when_it_is_back(app, relay, urls):
    mail, goes = declare_mail(app), app.fleet.shards[1]
    there = mail.using(key=key_for(app, goes, "mail")).enqueue("there")
    relay.refuse()
    late = App(*urls)
    other = declare_mail(late)

    with listening("shard.unserved") as told, working(late):
        assert other.enqueue("here").result(timeout=10) == "to here"
        relay.heal()
        assert there.result(timeout=20) == "to there"

    assert told
    late.close()


def test_a_drain_runs_what_can_be_run_and_says_what_could_not(app, relay):
    mail, (stays, goes) = declare_mail(app), app.fleet.shards
    for _ in range(4):
        mail.enqueue("m")
    relay.refuse()

    with pytest.raises(DatabaseUnavailable, match="everything due was run, except on") as raised:
        app.drain()

    assert raised.value.missing == (goes.name,)
    assert {row["status"] for row in rows_of(stays)} == {Status.SUCCEEDED}
    relay.heal()


@pytest.mark.parametrize("newest", ["0002", "9999"], ids=["without traces", "with traces"])
def test_a_lost_answer_does_not_make_a_second_task_elsewhere(app, relay, newest):
    mail, (stays, goes) = declare_mail(app), app.fleet.shards
    mail.enqueue("so that all is prepared")
    goes.database.dialect.has_tables = lambda version: version <= newest

    relay.lose_answer(b"commit")
    for number in range(4):
        mail.enqueue(f"m{number}")

    assert relay.lost == 1
    found = [row["payload"] for shard in (stays, goes) for row in rows_of(shard)]
    assert sorted(found) == sorted(set(found))
    assert len(found) == 5


@pytest.fixture
def near(sqlite_url, postgresql_url) -> Iterator[App]:
    """The same shards without the relay."""
    near = App(sqlite_url, postgresql_url)
    yield near
    near.close()


def declare_note(app: App, ran: list[str]) -> Task[[str], None]:
    @app.task(keep="0s")
    def note(text: str) -> None:
        ran.append(text)

    return note


@contextmanager
def unanswered(relay: Relay, call: Callable[[], TaskRef]) -> Iterator[Future[TaskRef]]:
    """`call`, whose commit has no answer; it tries again when the block has ended."""
    with ThreadPoolExecutor(1) as thread:
        relay.lose_answer_and_refuse(b"commit\x00")
        made = thread.submit(call)
        try:
            eventually(lambda: relay.lost == 1 or made.done(), what="an answer that is lost")
            yield made
        finally:
            relay.heal()


def test_a_task_that_ran_before_its_lost_answer_is_not_made_elsewhere(app, near, relay):
    ran: list[str] = []
    note, _ = declare_note(app, ran), declare_note(near, ran)
    for _ in range(3):
        note.enqueue("so that all is prepared, and it is the turn of the second shard")
    near.drain()
    ran.clear()

    with unanswered(relay, lambda: note.enqueue("once")) as made:
        near.drain()
        assert ran == ["once"]
    ref = made.result()

    assert relay.lost == 1
    assert place_of(ref.id) == app.fleet.shards[1].look().place
    near.drain()
    assert ran == ["once"]


@pytest.mark.parametrize("has_run", [True, False], ids=["run", "waiting"])
def test_a_key_whose_home_changed_before_its_lost_answer_is_not_made_elsewhere(
    app, near, relay, quick_moves, has_run
):
    ran: list[str] = []
    note, _ = declare_note(app, ran), declare_note(near, ran)
    goes = app.fleet.shards[1]
    key, other = (key_for(app, goes, "note", prefix) for prefix in ("key", "other"))
    note.using(key=other).enqueue("so that all is prepared")
    near.drain()
    ran.clear()

    with unanswered(
        relay, lambda: note.using(key=key, on_conflict="raise").enqueue("once")
    ) as made:
        if has_run:
            near.drain()
        operate.drain(near.fleet, "2")
    ref = made.result()

    assert relay.lost == 1
    assert place_of(ref.id) == goes.look().place
    near.drain()
    assert ran == ["once"]


def test_a_row_that_moved_before_its_lost_answer_is_not_made_again(app, near, relay, quick_moves):
    ran: list[str] = []
    note, _ = declare_note(app, ran), declare_note(near, ran)
    goes = app.fleet.shards[1]
    key, other = (key_for(app, goes, "note", prefix) for prefix in ("key", "other"))
    note.using(key=other).enqueue("so that all is prepared")
    near.drain()
    ran.clear()

    with unanswered(relay, lambda: note.using(key=key, delay="1h").enqueue("later")) as made:
        operate.drain(near.fleet, "2")
        operate.move(near.fleet, "2", dead_after=5_000_000, wait=False)
        assert [len(rows_of(shard)) for shard in near.fleet.shards] == [1, 0]
    ref = made.result()

    (row,) = rows_of(near.fleet.shards[0])
    assert ref.id == row["id"]
    assert rows_of(near.fleet.shards[1]) == []
