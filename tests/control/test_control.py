"""Named runs by plain calls: once at a time, from anywhere, on every database."""

import itertools
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update
from sqlalchemy.exc import DBAPIError

from tests.control.named import history, steps_of
from tests.table import count
from windlass import (
    BadDuration,
    BadInput,
    BadKey,
    BadStep,
    NotSerializable,
    PastTime,
    PayloadTooLarge,
    Reply,
    RunStatus,
)
from windlass.control import operate, store
from windlass.control.model.argument import ControlKey
from windlass.control.model.step import Step, encode_steps
from windlass.database.database import Database
from windlass.database.schema import control, control_run


def test_who_starts_what_is_running_is_told_who_runs_it_since_when_and_at_which_step(app, other):
    started = app.control.start("load")
    app.control.step("load", "parse")

    refused = other.control.start("load")

    row = app.control.get("load")
    assert (started.code, refused.code) == (0, 8)
    assert refused.data["who"].endswith(f" {os.getpid()}")
    assert refused.data["since"] == row.start_time.isoformat()
    assert (refused.data["step"], refused.data["batch"]) == ("parse", started.data["batch"])
    assert row.who in refused.msg


def test_two_partitions_are_independent(app):
    replies = [app.control.start("load", partition) for partition in ("2026-11", "2026-12")]

    app.control.finish("load", "2026-11")

    assert [reply.code for reply in replies] == [0, 0]
    assert app.control.get("load", "2026-11").status is RunStatus.SUCCEEDED
    assert app.control.get("load", "2026-12").status is RunStatus.RUNNING
    assert app.control.get("load") is None


def test_names_compare_byte_by_byte(app):
    names = ["load", "Load", "load ", "lo\u0301ad"]

    assert [app.control.start(name).code for name in names] == [0, 0, 0, 0]


def test_of_many_threads_that_start_at_once_one_wins(app):
    app.prepare()
    gate = threading.Barrier(8)

    def start(_):
        gate.wait()
        return app.control.start("load").code

    with ThreadPoolExecutor(8) as threads:
        codes = list(threads.map(start, range(8)))

    assert sorted(codes) == [0] + [8] * 7


def test_a_plain_run_without_expiry_is_held_until_it_ends(app, other, clock):
    app.control.start("load")
    clock.forward("365d")

    assert other.control.start("load").code == 8
    assert app.control.finish("load").code == 0
    assert other.control.start("load").code == 0


def test_an_expired_run_is_taken_over_and_its_old_holder_is_fenced_off(app, other, clock):
    app.control.start("load", expires="1h")
    app.control.step("load", 1)
    clock.forward("61m")

    taken = other.control.start("load", expires="1h")
    before = app.control.get("load")
    late = [
        app.control.step("load", 2),
        app.control.finish("load"),
        app.control.error("load", "late"),
    ]

    assert (taken.code, taken.data["tries"]) == (0, 2)
    assert [reply.code for reply in late] == [451, 451, 451]
    assert app.control.get("load") == before
    (lost,) = history(app, "load")
    assert (lost.status, lost.error, lost.run_seconds) == (RunStatus.FAILED, "expired", 3600.0)


def test_an_expired_run_that_nobody_took_over_may_still_finish(app, clock):
    app.control.start("load", expires="1h")
    clock.forward("2h")

    assert app.control.finish("load").code == 0
    assert app.control.get("load").status is RunStatus.SUCCEEDED


def test_a_run_is_still_held_just_before_it_expires(app, other, clock):
    app.control.start("load", expires="1h")
    clock.forward("59m")

    assert other.control.start("load").code == 8


def test_one_process_starts_and_another_steps_and_finishes(app, other):
    batch = app.control.start("load").data["batch"]

    replies = [
        other.control.step("load", 1),
        other.control.step("load", 2, batch=batch),
        other.control.finish("load", data={"rows": 7}),
    ]

    assert [reply.code for reply in replies] == [0, 0, 0]
    assert app.control.get("load").data == {"rows": 7}


def test_a_wrong_batch_is_refused(app, other):
    batch = app.control.start("load").data["batch"]

    assert other.control.step("load", 1, batch=batch + 1).code == 451
    assert other.control.finish("load", batch=batch + 1).code == 451
    assert app.control.get("load").status is RunStatus.RUNNING


def test_an_app_that_has_ended_its_run_may_step_through_the_run_of_another(app, other):
    app.control.start("load")
    app.control.finish("load")
    other.control.start("load")

    assert app.control.step("load", 1).code == 0


async def test_the_plain_calls_have_twins(app):
    codes = [
        (await app.control.astart("load", "p", "1h", data=[1])).code,
        (await app.control.astep("load", 1, "p")).code,
        (await app.control.astep("load", 1, "p")).code,
        (await app.control.aerror("load", "why", "p")).code,
        (await app.control.astart("load", "p")).code,
        (await app.control.afinish("load", "p")).code,
    ]

    row = await app.control.aget("load", "p")
    assert codes == [0] * 6
    assert (row.status, row.tries, row.data) == (RunStatus.SUCCEEDED, 2, [1])


def test_wrong_states_are_refused_and_change_nothing(app):
    assert app.control.step("load", 1).code == 451
    assert app.control.finish("load").code == 451
    assert app.control.error("load", "why").code == 451
    assert count(app, control) == 0

    app.control.start("load")
    app.control.finish("load")
    before = app.control.get("load")

    late = [
        app.control.finish("load"),
        app.control.error("load", "why"),
        app.control.step("load", 1),
    ]
    assert [reply.code for reply in late] == [451, 451, 451]
    assert app.control.get("load") == before
    assert count(app, control_run) == 1


@pytest.fixture
def lose_answers(app, monkeypatch):
    """From now on each transaction is committed, and its first answer is lost."""

    def start():
        commit, calls = app.database._in_transaction, itertools.count()

        def lose(work):
            result = commit(work)
            if next(calls) % 2 == 0:
                raise DBAPIError("commit", {}, OSError("gone"), connection_invalidated=True)
            return result

        monkeypatch.setattr(app.database, "_in_transaction", lose)

    return start


def test_a_call_whose_answer_was_lost_has_its_effect_once(app, lose_answers):
    app.control.start("other")
    app.control.finish("other")
    lose_answers()

    replies = [
        app.control.start("load"),
        app.control.step("load", 1),
        app.control.step("load", 2),
        app.control.error("load", "why"),
        app.control.start("load"),
        app.control.step("load", 1),
        app.control.finish("load"),
    ]

    assert [reply.code for reply in replies] == [0, 0, 0, 0, 0, 2, 0]
    assert app.control.get("load").tries == 2
    assert [run.error for run in history(app, "load")] == [None, "why"]


def test_the_fields_of_a_run_are_kept(app, clock):
    app.control.start("load", "p", "2h", data={"file": "a"})
    clock.forward("90s")
    app.control.error("load", "disk full", "p")

    row = app.control.get("load", "p")
    assert (row.name, row.partition, row.stat_date) == ("load", "p", "2026-01-01")
    assert (row.status, row.error, row.tries) == (RunStatus.FAILED, "disk full", 1)
    assert row.first_time == row.start_time
    assert row.expire_time == row.start_time + timedelta(hours=2)
    assert row.end_time >= row.start_time + timedelta(seconds=90)
    assert row.run_seconds == (row.end_time - row.start_time).total_seconds()
    assert row.data == {"file": "a"}
    assert int(row.status) == -1


def test_the_last_hundred_tries_of_a_name_are_kept_with_their_steps(app):
    app.control.start("other")
    app.control.finish("other")
    for number in range(103):
        app.control.start("load", str(number % 2))
        app.control.step("load", 1, str(number % 2))
        app.control.finish("load", str(number % 2), data=number)

    kept = history(app, "load", "0") + history(app, "load", "1")

    assert sorted(run.data for run in kept) == list(range(3, 103))
    assert all(run.steps[0].began_at <= run.steps[0].ended_at for run in kept)
    assert len(history(app, "other")) == 1


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda control: control.start(""), BadKey),
        (lambda control: control.start("  "), BadKey),
        (lambda control: control.start(None), BadKey),
        (lambda control: control.start(7), BadKey),
        (lambda control: control.start("a" * 256), BadKey),
        (lambda control: control.start("a\x00"), BadKey),
        (lambda control: control.start("a", "p" * 256), BadKey),
        (lambda control: control.start("a", None), BadKey),
        (lambda control: control.start("a", expires="soon"), BadDuration),
        (lambda control: control.start("a", expires="0s"), BadDuration),
        (lambda control: control.start("a", expires="-1h"), BadDuration),
        (lambda control: control.start("a", expires=60), BadDuration),
        (lambda control: control.start("a", expires=datetime(2027, 1, 1)), BadDuration),  # noqa: DTZ001
        (lambda control: control.start("a", expires=datetime(2025, 1, 1, tzinfo=UTC)), PastTime),
        (lambda control: control.start("a", expires=timedelta(hours=-1)), BadDuration),
        (lambda control: control.step("a", 1, batch="7"), BadInput),
        (lambda control: control.start("a", data=object()), NotSerializable),
        (lambda control: control.start("a", data={"x": float("nan")}), NotSerializable),
        (lambda control: control.start("a", data="x" * 300_000), PayloadTooLarge),
        (lambda control: control("").__enter__(), BadKey),
        (lambda control: control("a", expires="soon").__enter__(), BadDuration),
        (lambda control: control("a", data=object()).__enter__(), NotSerializable),
        (lambda control: control("a").step(1), BadInput),
    ],
)
def test_what_cannot_be_started_is_a_clear_error_and_nothing_is_written(app, call, error):
    app.prepare()

    with pytest.raises(error, match=r"control|expires"):
        call(app.control)

    assert count(app, control) == 0


@pytest.mark.parametrize(
    "step", [0, -1, 1.0, True, None, "", "x" * 256, 2**60, b"a", "a\x00", "\ud800"]
)
def test_what_cannot_be_a_step_is_a_clear_error_and_nothing_is_changed(app, step):
    app.control.start("load")
    before = app.control.get("load")

    with pytest.raises(BadStep, match="control 'load'"):
        app.control.step("load", step)

    assert app.control.get("load") == before


def test_what_cannot_be_kept_is_a_clear_error_and_nothing_is_changed(app):
    with pytest.raises(NotSerializable, match="the result of step 'x'"), app.control("load") as run:
        with pytest.raises(NotSerializable, match="data"):
            run.note({1, object()})
        assert app.control.get("load").data is None
        run.step("x", object)

    assert steps_of(app.control.get("load")) == {"x": False}
    assert app.control.start("load").code == 0
    with pytest.raises(NotSerializable):
        app.control.finish("load", data=object())
    assert app.control.get("load").status is RunStatus.RUNNING


def test_a_name_of_255_characters_fits(app):
    name = "ä" * 255

    assert app.control.start(name, name) == Reply(
        0,
        "started",
        {"status": 9, "batch": app.control.get(name, name).batch, "tries": 1}
        | {"data": None, "done": []},
    )


def test_a_run_may_expire_at_a_moment(app, other, clock):
    moment = datetime(2026, 1, 1, 3, tzinfo=UTC)
    assert app.control.start("load", expires=moment).code == 0
    assert app.control.get("load").expire_time == moment

    clock.forward("2h")
    assert other.control.start("load").code == 8
    clock.forward("61m")
    assert other.control.start("load").code == 0


def test_notes_cannot_grow_without_end(app):
    with app.control("load") as run:
        run.note({"a": "x" * 200_000})
        with pytest.raises(PayloadTooLarge, match=r"data is 400,\d+ bytes as JSON, over the limit"):
            run.note({"b": "x" * 200_000})
        run.note(None)
        assert run.data == {"a": "x" * 200_000}

    assert app.control.get("load").data.keys() == {"a"}


def test_of_the_runs_that_others_end_not_all_are_remembered_forever(app, other, monkeypatch):
    monkeypatch.setattr("windlass.control.engine.calls.MOST_REMEMBERED", 2)
    for partition in "abc":
        app.control.start("load", partition)
        other.control.finish("load", partition)
        other.control.start("load", partition)

    codes = [app.control.step("load", 1, partition).code for partition in "abc"]

    # Of "a" it no longer knows that the run of now is not the one it started.
    assert codes == [0, 451, 451]


@pytest.fixture
def meanwhile(app, monkeypatch):
    """The answer to the next transaction is lost, and others act before it is done again."""

    def lose(act):
        work_of = Database._in_transaction

        def lost(self, work):
            work_of(self, work)
            monkeypatch.setattr(Database, "_in_transaction", work_of)
            act()
            raise DBAPIError("commit", {}, OSError("cut"), connection_invalidated=True)

        app.prepare()
        app.fleet.shards[0].numbers.take()
        monkeypatch.setattr(Database, "_in_transaction", lost)

    return lose


def test_an_end_whose_answer_was_lost_counts_although_another_run_has_begun(
    app, other, meanwhile, control_events
):
    app.control.start("load")
    meanwhile(lambda: other.control.start("load"))

    assert app.control.finish("load").code == 0
    assert app.control.get("load").status is RunStatus.RUNNING
    assert len(history(app, "load")) == 1
    assert control_events.count("control.finished") == 1


def test_a_start_whose_answer_was_lost_is_ours_although_others_have_stepped(app, other, meanwhile):
    meanwhile(lambda: other.control.step("load", 1))

    reply = app.control.start("load")

    assert (reply.code, reply.data["tries"]) == (0, 1)
    assert app.control.get("load").step == 1
    assert app.control.finish("load").code == 0


def test_a_release_whose_answer_was_lost_is_done(app, other, meanwhile):
    app.control.start("load")
    meanwhile(lambda: other.control.start("load"))

    assert operate.release(app.fleet, ControlKey("load")).code == 0
    assert app.control.get("load").status is RunStatus.RUNNING


def test_a_lease_counts_from_the_moment_when_the_row_is_written(app, other, clock, monkeypatch):
    app.prepare()
    app.fleet.shards[0].numbers.take()
    locked = store.locked

    def late(*args):
        clock.forward("2h")
        return locked(*args)

    monkeypatch.setattr(store, "locked", late)
    app.control.start("load", expires="1h")
    monkeypatch.undo()

    assert other.control.start("load").code == 8


def test_the_largest_run_can_be_ended(app):
    steps = tuple(Step(number, 1, 2, result="y" * 65_000) for number in range(1, 64))
    with app.control("load", data={"text": "x" * 250_000}):
        large = encode_steps(steps, what="load")
        app.database.write(
            lambda connection: connection.execute(update(control).values(steps=large))
        )

    assert app.control.get("load").status is RunStatus.SUCCEEDED
    assert history(app, "load")[0].steps == steps


def test_steps_after_the_expiry_are_before_the_end_of_a_run_that_is_taken_over(app, other, clock):
    app.control.start("load", expires="1h")
    clock.forward("2h")
    app.control.step("load", 1)
    clock.forward("1h")
    other.control.start("load")

    (expired,) = history(app, "load")
    assert expired.end_time == expired.steps[0].began_at


def test_a_start_says_in_which_status_it_found_the_run(app, other):
    statuses = [app.control.start("load", once=True).data["status"]]
    statuses.append(other.control.start("load").data["status"])
    app.control.error("load", "boom")
    statuses.append(app.control.start("load").data["status"])
    app.control.finish("load")
    statuses.append(app.control.start("load", once=True).data["status"])

    assert statuses == [RunStatus.READY, RunStatus.RUNNING, RunStatus.READY, RunStatus.SUCCEEDED]


def test_a_plain_call_notes_data_on_a_running_run(app, other):
    batch = app.control.start("load", data={"file": "a.csv"}).data["batch"]

    noted = other.control.note("load", {"rows": 7}, batch=batch)
    app.control.finish("load")
    late = app.control.note("load", {"rows": 8})

    assert (noted.code, noted.data["data"]) == (0, {"file": "a.csv", "rows": 7})
    assert late.code == 451
    assert app.control.get("load").data == {"file": "a.csv", "rows": 7}
