"""Keys: unique within a kind, and what happens when one is taken."""

import pytest

from tests.table import count, task, tasks
from windlass import BadKey, DuplicateKey, Status
from windlass.value.bucket import bucket_of


@pytest.fixture
def calls():
    return []


@pytest.fixture
def note(app, calls):
    @app.task
    def note(text: str) -> None:
        calls.append(text)

    return note


def test_a_taken_key_returns_the_task_that_has_it(app, note, calls):
    first = note.using(key="order-7").enqueue("first")

    second = note.using(key="order-7").enqueue("second")
    app.drain()

    assert second.id == first.id
    assert calls == ["first"]


def test_a_key_decides_the_bucket(app, note):
    ref = note.using(key="order-7").enqueue("x")

    assert task(app, ref)["bucket"] == bucket_of("order-7")


def test_a_key_is_unique_only_within_its_kind(app, note):
    @app.task
    def other(text: str) -> None: ...

    one = note.using(key="k").enqueue("x")
    two = other.using(key="k").enqueue("x")

    assert one.id != two.id
    assert count(app) == 2


def test_a_finished_task_holds_its_key_until_it_is_pruned(app, note, calls):
    first = note.using(key="k").enqueue("once")
    app.drain()

    second = note.using(key="k").enqueue("twice")
    app.drain()

    assert second.id == first.id
    assert calls == ["once"]
    assert task(app, first)["status"] == Status.SUCCEEDED


def test_on_conflict_raise_names_the_task_and_changes_nothing(app, note):
    first = note.using(key="k").enqueue("first")
    before = tasks(app)

    with pytest.raises(DuplicateKey, match="waiting task with key 'k'") as raised:
        note.using(key="k", on_conflict="raise").enqueue("second")

    assert (raised.value.kind, raised.value.key) == ("note", "k")
    assert raised.value.task_id == first.id
    assert tasks(app) == before


def test_on_conflict_raise_undoes_the_whole_of_enqueue_many(app, note):
    note.using(key="b").enqueue("first")

    with pytest.raises(DuplicateKey):
        note.using(on_conflict="raise").enqueue_many(
            [{"text": "a"}, {"text": "b"}], keys=["a", "b"]
        )

    assert [row["task_key"] for row in tasks(app)] == ["b"]


def test_on_conflict_replace_makes_a_waiting_task_new(app, note, calls, clock):
    first = note.using(key="k", delay="1h", priority=1).enqueue("old")
    clock.forward("1s")

    second = note.using(key="k", on_conflict="replace", priority=2).enqueue("new")

    row = task(app, first)
    assert second.id == first.id
    assert (row["payload"], row["priority"]) == ('{"text":"new"}', 2)
    assert row["due_at"] == row["created_at"]
    app.drain()
    assert calls == ["new"]


def test_on_conflict_replace_begins_a_finished_task_again(app, note, calls):
    note.using(key="k").enqueue("old")
    app.drain()

    ref = note.using(key="k", on_conflict="replace").enqueue("new")

    row = task(app, ref)
    assert ref.status() is Status.WAITING
    assert (row["attempt"], row["finished_at"], row["prune_at"], row["result"]) == (
        0,
        None,
        None,
        None,
    )
    app.drain()
    assert calls == ["old", "new"]


def test_on_conflict_replace_begins_a_failed_task_again_with_all_its_tries(app, clock):
    seen = []

    @app.task(retries=1, backoff="1s")
    def fail(text: str) -> None:
        seen.append(text)
        raise RuntimeError(text)

    ref = fail.using(key="k").enqueue("old")
    app.drain()
    clock.forward("2s")
    app.drain()
    assert ref.status() is Status.FAILED

    fail.using(key="k", on_conflict="replace").enqueue("new")
    app.drain()

    row = task(app, ref)
    assert (row["status"], row["attempt"]) == (Status.WAITING, 1)
    assert seen == ["old", "old", "new"]


def test_a_running_task_is_not_replaced(app):
    refused = []

    @app.task
    def replace_me(text: str) -> str:
        try:
            replace_me.using(key="k", on_conflict="replace").enqueue("new")
        except DuplicateKey as error:
            refused.append(str(error))
        return text

    ref = replace_me.using(key="k").enqueue("old")
    app.drain()

    assert len(refused) == 1
    assert "running task with key 'k'" in refused[0]
    assert ref.result() == "old"
    assert count(app) == 1


def test_a_running_task_holds_its_key(app):
    same = []

    @app.task
    def again() -> None:
        same.append(again.using(key="k").enqueue())

    ref = again.using(key="k").enqueue()
    app.drain()

    assert same == [ref]
    assert count(app) == 1


@pytest.mark.parametrize(
    "key", ["a\\b", 'say "hi"', "鍵🔑", "a\nb", "%s :kind ?", "x" * 255, "🔑" * 255]
)
def test_odd_keys_are_kept_exactly(app, note, key):
    ref = note.using(key=key).enqueue("x")
    same = note.using(key=key).enqueue("y")

    assert same.id == ref.id
    assert task(app, ref)["task_key"] == key


@pytest.mark.parametrize("key", ["a", "A", "a ", " a", "á", "a\u0301", "\uff41"])
def test_keys_compare_byte_by_byte(app, note, key):
    others = {"a", "A", "a ", " a", "á", "a\u0301", "\uff41"} - {key}
    ids = {note.using(key=other).enqueue("x").id for other in sorted(others)}

    ref = note.using(key=key).enqueue("x")

    assert ref.id not in ids
    assert {row["task_key"] for row in tasks(app)} == others | {key}


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("", "is empty"),
        (7, "is not text"),
        (b"k", "is not text"),
        ("x" * 256, "256 characters"),
        ("a\x00b", "cannot store"),
        ("\ud800", "cannot store"),
    ],
)
def test_a_bad_key_is_refused_and_changes_nothing(app, note, key, said):
    with pytest.raises(BadKey, match=said):
        note.using(key=key).enqueue("x")

    assert count(app) == 0


def test_one_key_cannot_serve_many_tasks(app, note):
    with pytest.raises(ValueError, match="many tasks cannot have one key"):
        note.using(key="k").enqueue_many([{"text": "a"}, {"text": "b"}])

    assert count(app) == 0


def test_as_many_keys_as_calls_must_be_given(app, note):
    with pytest.raises(ValueError, match="1 keys for 2 tasks"):
        note.enqueue_many([{"text": "a"}, {"text": "b"}], keys=["k"])

    assert count(app) == 0


def test_the_key_of_a_cron_cannot_be_taken(app):
    @app.cron("0 3 * * *")
    def nightly() -> None: ...

    app.drain()
    (standing,) = tasks(app)

    with pytest.raises(BadKey, match="reserved"):
        nightly.using(key=standing["task_key"], on_conflict="replace").enqueue()

    assert tasks(app) == [standing]
