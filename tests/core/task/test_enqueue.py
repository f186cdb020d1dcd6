"""Enqueueing: calls become rows, and rows become calls."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.table import count, task, tasks
from windlass import BadInput, PastTime, Status, TaskRef
from windlass.clock import from_datetime, to_datetime
from windlass.value.bucket import bucket_of


@pytest.fixture
def calls():
    return []


@pytest.fixture
def note(app, calls):
    @app.task
    def note(text: str, number: int = 0) -> None:
        calls.append((text, number))

    return note


def test_an_enqueued_call_is_a_waiting_row_until_it_is_drained(app, note, calls):
    ref = note.enqueue("hi", number=2)

    assert isinstance(ref, TaskRef)
    assert ref.status() is Status.WAITING
    row = task(app, ref)
    assert (row["kind"], row["status"], row["attempt"], row["task_key"]) == ("note", 0, 0, None)
    assert row["bucket"] == bucket_of(str(ref.id))
    assert calls == []

    app.drain()

    assert calls == [("hi", 2)]
    assert ref.status() is Status.SUCCEEDED
    assert tasks(app) == []


async def test_the_async_twins_do_the_same(app, note, calls):
    ref = await note.aenqueue("hi")
    many = await note.aenqueue_many([{"text": "a"}, {"text": "b"}])

    assert await ref.astatus() is Status.WAITING
    assert count(app) == 3

    await app.adrain()

    assert calls == [("hi", 0), ("a", 0), ("b", 0)]
    assert [await each.astatus() for each in many] == [Status.SUCCEEDED, Status.SUCCEEDED]


def test_calling_a_task_just_calls_the_function(app, note, calls):
    note("hi", number=3)

    assert calls == [("hi", 3)]
    assert count(app) == 0


async def test_calling_an_async_task_gives_its_coroutine(app):
    @app.task
    async def double(number: int) -> int:
        return 2 * number

    assert await double(21) == 42
    assert count(app) == 0


def test_a_task_looks_like_its_function(app):
    @app.task(name="mail.send")
    def send_mail(to: str) -> None:
        """Send a mail."""

    assert send_mail.__name__ == "send_mail"
    assert send_mail.__doc__ == "Send a mail."
    assert send_mail.kind == "mail.send"


def test_one_worker_runs_tasks_in_the_order_they_were_enqueued(app):
    seen = []

    @app.task(concurrency=1)
    def note(number: int) -> None:
        seen.append(number)

    note.enqueue(0)
    note.enqueue_many({"number": number} for number in range(1, 50))
    note.enqueue(50)
    app.drain()

    assert seen == list(range(51))


def test_enqueue_many_returns_a_ref_for_each_call_in_order(app, note):
    refs = note.enqueue_many([{"text": f"t{number}", "number": number} for number in range(300)])

    assert [type(ref) for ref in refs] == [TaskRef] * 300
    assert len({ref.id for ref in refs}) == 300
    by_id = {row["id"]: row for row in tasks(app)}
    assert [f'"t{number}"' in by_id[ref.id]["payload"] for number, ref in enumerate(refs)] == (
        [True] * 300
    )


def test_enqueue_many_is_all_or_nothing(app, note):
    calls = [{"text": "good"}, {"text": "good"}, {"text": 3}]

    with pytest.raises(BadInput, match="argument 'text' is 3"):
        note.enqueue_many(calls)

    assert count(app) == 0


def test_enqueue_many_of_nothing_is_nothing(app, note):
    assert note.enqueue_many([]) == []
    assert count(app) == 0


def test_enqueue_many_takes_a_key_for_each(app, note):
    first = note.enqueue_many([{"text": "a"}, {"text": "b"}], keys=["ka", "kb"])
    again = note.enqueue_many([{"text": "c"}, {"text": "d"}], keys=["kb", "kc"])

    assert again[0].id == first[1].id
    assert {row["task_key"]: row["payload"] for row in tasks(app)} == {
        "ka": '{"text":"a"}',
        "kb": '{"text":"b"}',
        "kc": '{"text":"d"}',
    }


def test_a_key_given_twice_to_enqueue_many_makes_one_task(app, note):
    refs = note.enqueue_many([{"text": "a"}, {"text": "b"}], keys=["k", "k"])

    assert refs[0].id == refs[1].id
    assert [row["payload"] for row in tasks(app)] == ['{"text":"a"}']


def test_ten_thousand_calls_are_one_transaction_and_quick(app, note):
    refs = note.enqueue_many([{"text": "x", "number": number} for number in range(10_000)])

    assert len({ref.id for ref in refs}) == 10_000
    assert count(app) == 10_000


def test_a_delayed_task_waits_for_its_time(app, note, calls, clock):
    ref = note.using(delay="5m").enqueue("later")
    app.drain()
    assert calls == []

    clock.forward("4m59s")
    app.drain()
    assert calls == []
    assert ref.status() is Status.WAITING

    clock.forward("1s")
    app.drain()
    assert calls == [("later", 0)]


def test_a_delay_may_be_a_timedelta_or_nothing_at_all(app, note, clock):
    ref = note.using(delay=timedelta(hours=2)).enqueue("later")
    at_once = note.using(delay="0s").enqueue("now")

    row, now = task(app, ref), clock.now()
    assert row["due_at"] - row["created_at"] == 2 * 3600 * 1_000_000
    assert task(app, at_once)["due_at"] <= now


def test_a_task_may_start_at_a_moment_in_any_time_zone(app, note, calls, clock):
    moment = datetime(2026, 1, 1, 3, 0, tzinfo=UTC).astimezone(tz=None)

    ref = note.using(at=moment).enqueue("at three")

    assert task(app, ref)["due_at"] == from_datetime(datetime(2026, 1, 1, 3, tzinfo=UTC))
    clock.forward("3h")
    app.drain()
    assert calls == [("at three", 0)]


def test_a_moment_that_has_passed_starts_the_task_at_once_and_says_so(
    app, note, calls, clock, events
):
    yesterday = to_datetime(clock.now()) - timedelta(days=1)

    note.using(at=yesterday).enqueue("late")
    app.drain()

    assert calls == [("late", 0)]
    assert ("task.past", {"kind": "note", "at": yesterday.isoformat()}) in events


def test_a_moment_that_has_passed_is_refused_if_wanted_and_nothing_is_written(app, note, clock):
    yesterday = to_datetime(clock.now()) - timedelta(days=1)

    with pytest.raises(PastTime, match="has passed") as raised:
        note.using(at=yesterday, on_past="raise").enqueue("late")

    assert yesterday.isoformat() in str(raised.value)
    assert count(app) == 0


def test_a_later_using_overrules_an_earlier_one(app, note):
    base = note.using(priority=5, delay="1h")

    ref = base.using(priority=7, at=datetime(2026, 1, 1, 5, tzinfo=UTC)).enqueue("x")

    row = task(app, ref)
    assert row["priority"] == 7
    assert row["due_at"] == from_datetime(datetime(2026, 1, 1, 5, tzinfo=UTC))


def test_using_changes_nothing_of_the_task_itself(app, note):
    note.using(key="k", priority=9, delay="1h")

    row = task(app, note.enqueue("x"))

    assert (row["task_key"], row["priority"]) == (None, 0)
    assert row["due_at"] == row["created_at"]


def test_a_handler_may_enqueue_and_drain_runs_that_too(app):
    seen = []

    @app.task
    def child(number: int) -> None:
        seen.append(number)

    @app.task
    async def parent(number: int) -> None:
        child.enqueue(number)
        await child.aenqueue(number + 1)

    parent.enqueue(1)
    parent.enqueue(10)
    app.drain()

    assert sorted(seen) == [1, 2, 10, 11]
    assert count(app) == 0


def test_a_ref_is_known_by_its_id(app, note):
    ref = note.enqueue("x")

    again = app.ref(ref.id)

    assert again == ref
    assert {again, ref} == {ref}
    assert again.status() is Status.WAITING
    assert str(ref.id) in repr(ref)
