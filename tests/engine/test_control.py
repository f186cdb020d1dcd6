"""Named runs: once at a time, steps remembered, on every database."""

import asyncio
import itertools
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from sqlalchemy.exc import DBAPIError

from tests.table import count
from windlass import (
    AlreadyRunning,
    App,
    BadDuration,
    BadInput,
    BadKey,
    BadStep,
    NotSerializable,
    Reply,
    RunLost,
    telemetry,
)
from windlass.clock import from_datetime
from windlass.engine.controlled import LEASE, Beat
from windlass.model.control import Progress, RunStatus
from windlass.store import control as store
from windlass.store.schema import control, control_run


def steps_of(row):
    return {step.step: step.is_done for step in row.steps}


def history(app, name, partition=""):
    place = (name, partition)
    return app.database.read(
        lambda connection: store.history(connection, store.Place(*place), limit=200)
    )


@pytest.fixture
def other(app, database_url, clock):
    """Another app, as in another process."""
    with closing(App(database_url, clock=clock)) as other:
        yield other


@pytest.fixture
def events():
    seen = []
    stop = telemetry.subscribe(
        lambda event: seen.append(event.name) if event.name.startswith("control") else None
    )
    yield seen
    stop()


def fail(app, name, *steps):
    """A try that takes these steps and fails in the last of them."""
    assert app.control.start(name).code == 0
    for step in steps:
        app.control.step(name, step)
    assert app.control.error(name, "boom").code == 0


# Once at a time


def test_who_starts_what_is_running_is_told_who_runs_it_since_when_and_at_which_step(app, other):
    started = app.control.start("load")
    app.control.step("load", "parse")

    refused = other.control.start("load")

    row = app.control.get("load")
    assert (started.code, refused.code) == (0, 8)
    assert refused.data["who"].endswith(f" {os.getpid()}")
    assert refused.data["since"] == row.since.isoformat()
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


# Plain calls, from anywhere


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


# Steps


def test_a_rerun_after_a_failure_skips_what_is_done_and_repeats_what_was_interrupted(app):
    fail(app, "load", 1, 2)

    app.control.start("load")
    codes = [app.control.step("load", step).code for step in (1, 2, 3)]

    row = app.control.get("load")
    assert codes == [2, 0, 0]
    assert steps_of(row) == {1: True, 2: True, 3: False}
    assert (row.tries, row.step) == (2, 3)
    assert row.first_time < row.start_time


def test_a_new_run_after_a_success_starts_from_the_first_step(app):
    app.control.start("load", data={"a": 1})
    app.control.step("load", 1)
    app.control.finish("load")

    app.control.start("load")

    row = app.control.get("load")
    assert (row.tries, row.steps, row.data) == (1, (), None)
    assert row.first_time == row.start_time
    assert app.control.step("load", 1).code == 0


def test_a_step_that_is_under_way_may_be_asked_for_again(app):
    app.control.start("load")
    app.control.step("load", 1)
    before = app.control.get("load")

    assert app.control.step("load", 1).code == 0
    assert app.control.get("load") == before


def test_the_last_step_is_done_when_the_run_finishes(app):
    app.control.start("load")
    app.control.step("load", 1)
    app.control.finish("load")

    assert steps_of(app.control.get("load")) == {1: True}


def test_a_number_that_goes_backwards_is_an_error_that_says_so(app):
    app.control.start("load")
    app.control.step("load", 1)
    app.control.step("load", 3)
    before = app.control.get("load")

    with pytest.raises(BadStep, match="step 2 goes backwards: step 3 has begun already"):
        app.control.step("load", 2)

    assert app.control.get("load") == before
    assert app.control.step("load", 1).code == 2


def test_a_name_that_moved_is_an_error_that_says_so(app):
    fail(app, "load", "a", "b", "c")
    app.control.start("load")
    before = app.control.get("load")

    with pytest.raises(BadStep, match="step 'b' has moved: an earlier try did 'a' before it"):
        app.control.step("load", "b")

    assert app.control.get("load") == before
    assert [app.control.step("load", name).code for name in "abc"] == [2, 2, 0]


def test_a_new_name_may_come_between_those_that_are_done(app):
    fail(app, "load", "a", "b", "c")
    fail(app, "load", "a", "new", "b", "c")
    app.control.start("load")

    codes = [app.control.step("load", name).code for name in ("a", "new", "b", "c")]

    # Nothing began after "new" but the "c" that was interrupted, so "new" was done.
    assert codes == [2, 2, 2, 0]


def test_numbers_and_names_may_be_mixed(app):
    fail(app, "load", 1, "parse", 2, "1")
    app.control.start("load")

    assert [app.control.step("load", step).code for step in (1, "parse", 2, "1")] == [2, 2, 2, 0]


def test_steps_may_be_asked_for_out_of_a_loop_and_nested_in_functions(app):
    done = []

    def part(run, name):
        if run.step(f"part-{name}"):
            if name == "c" and run.tries == 1:
                raise OSError("disk full")
            done.append(name)

    def load():
        with app.control("load") as run:
            for name in "abcd":
                part(run, name)

    with pytest.raises(OSError, match="disk full"):
        load()
    load()

    assert done == ["a", "b", "c", "d"]


def test_the_result_of_a_step_is_remembered_and_its_function_is_called_once(app):
    calls = []

    def rows(table, *, limit) -> tuple[str, int]:
        calls.append(table)
        return table, limit

    results = []
    for _ in range(2):
        with pytest.raises(LookupError), app.control("load") as run:
            results.append(run.step("rows", rows, "recording", limit=7))
            assert run.step("empty", lambda: None) is None
            raise LookupError

    assert calls == ["recording"]
    assert results == [("recording", 7)] * 2


def test_a_step_whose_function_fails_is_repeated(app):
    def flaky():
        if run.tries == 1:
            raise OSError("disk full")
        return "yes"

    with pytest.raises(OSError, match="disk"), app.control("load") as run:
        run.step(1, flaky)
    assert steps_of(app.control.get("load")) == {1: False}

    with app.control("load") as run:
        assert run.step(1, flaky) == "yes"


def test_a_crash_between_the_result_of_a_step_and_the_next_step_does_not_repeat_it(
    app, other, clock
):
    crashed = app.control("load")
    crashed._begin()
    crashed._beat.stop()
    assert crashed.step("count", lambda: 42) == 42
    # Nothing more is ever heard of it.
    clock.advance(LEASE + 1)

    with other.control("load") as run:
        assert run.tries == 2
        assert run.step("count", lambda: pytest.fail("it was done")) == 42


def test_a_step_inside_the_function_of_a_step_does_not_end_it(app):
    def outer(run):
        run.step("inner")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk"), app.control("load") as run:
        run.step("outer", outer, run)

    assert steps_of(app.control.get("load")) == {"outer": False, "inner": False}


# The block


def test_a_block_holds_its_run_and_finishes_it(app, other, events):
    with app.control("load", "p", data={"file": "a"}) as run:
        with pytest.raises(AlreadyRunning) as refused:
            other.control("load", "p").__enter__()
        assert (run.name, run.partition, run.tries, run.data) == ("load", "p", 1, {"file": "a"})
        assert run.batch == app.control.get("load", "p").batch
        run.step("parse")

    row = app.control.get("load", "p")
    assert (refused.value.name, refused.value.partition) == ("load", "p")
    assert refused.value.who == row.who
    assert from_datetime(refused.value.since) == row.start_time
    assert refused.value.step is None
    assert (row.status, row.error, row.step) == (RunStatus.SUCCEEDED, None, "parse")
    assert row.run_seconds >= 0
    assert events == ["control.started", "control.finished"]


async def test_an_async_block_holds_its_run_and_its_steps_may_be_async(app, other):
    async def rows() -> int:
        await asyncio.sleep(0)
        return 7

    async with app.control("load") as run:
        with pytest.raises(AlreadyRunning):
            await other.control("load").__aenter__()
        assert await run.astep(1)
        assert await run.astep(2, rows) == 7
        assert await run.astep(3, lambda: 8) == 8
        assert await run.astep(2, rows) == 7
        await run.anote({"seen": 1})

    row = app.control.get("load")
    assert (row.status, row.data) == (RunStatus.SUCCEEDED, {"seen": 1})


def test_an_exception_is_recorded_with_its_traceback_and_raised_again(app, events):
    with pytest.raises(ZeroDivisionError), app.control("load") as run:
        run.step("divide")
        raise ZeroDivisionError("division by zero")

    row = app.control.get("load")
    assert (row.status, row.step) == (RunStatus.FAILED, "divide")
    assert row.error.startswith("ZeroDivisionError: division by zero\n")
    assert 'raise ZeroDivisionError("division' in row.error
    assert events == ["control.started", "control.failed"]


def test_an_interrupt_is_recorded_as_such(app):
    with pytest.raises(KeyboardInterrupt), app.control("load"):
        raise KeyboardInterrupt

    assert app.control.get("load").error == "interrupted"


async def test_a_cancelled_async_block_is_recorded_as_interrupted(app):
    entered = asyncio.Event()

    async def work():
        async with app.control("load"):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert app.control.get("load").error == "interrupted"


@pytest.mark.parametrize("call", ["step", "function", "note", "track", "exit"])
def test_a_lost_run_raises_at_its_next_call_and_changes_nothing(app, other, clock, events, call):
    with pytest.raises(RunLost, match="no longer yours"), app.control("load", expires="1h") as run:
        clock.forward("2h")
        other.control.start("load")
        before = app.control.get("load")
        match call:
            case "step":
                run.step(1)
            case "function":
                run.step(1, pytest.fail)
            case "note":
                run.note({"a": 1})
            case "track":
                list(run.track([1]))

    assert app.control.get("load") == before
    assert events.count("control.lost") == 1
    assert "control.failed" not in events


def test_an_error_in_a_lost_run_is_the_error_of_the_block(app, other, clock, events):
    with pytest.raises(OSError, match="disk"), app.control("load", expires="1h"):
        clock.forward("2h")
        other.control.start("load")
        raise OSError("disk full")

    assert app.control.get("load").status is RunStatus.RUNNING
    assert events == ["control.started", "control.started", "control.lost"]


def test_the_heartbeat_keeps_a_run_and_without_it_the_lease_runs_out(app, other, clock):
    with pytest.raises(RunLost), app.control("load") as run:
        beat = Beat(run.renew)
        for _ in range(4):
            clock.forward("50s")
            beat._is_first = False
            beat.tick()
            assert other.control.start("load").code == 8
        clock.forward("61s")
        assert other.control.start("load").code == 0
        beat.tick()
        assert beat._stopping


def test_with_expires_nothing_renews_the_run(app):
    with app.control("load", expires="1h") as run:
        assert run._beat is None
        row = app.control.get("load")
    assert row.expire_time - row.start_time == 3600 * 1_000_000


def test_the_heartbeat_ends_with_the_block(app):
    with app.control("load") as run:
        thread = run._beat._thread
        assert thread.is_alive()
    assert not thread.is_alive()


def test_notes_are_merged_and_progress_is_a_number_in_the_table(app):
    with app.control("load", data={"a": 1}) as run:
        run.note({"b": 2})
        assert list(run.track(iter("abc"), total=3)) == ["a", "b", "c"]
        assert app.control.get("load").progress == Progress(3, 3)
        run.note({"b": 3})
        assert run.data == {"a": 1, "b": 3}
        for _ in run.track(range(10)):
            break

    row = app.control.get("load")
    assert row.data == {"a": 1, "b": 3}
    assert row.progress == Progress(0, 10)


async def test_progress_has_an_async_twin(app):
    async with app.control("load") as run:
        assert [item async for item in run.atrack([1, 2])] == [1, 2]

    assert app.control.get("load").progress == Progress(2, 2)


def test_a_decorated_function_gets_its_run_first(app):
    @app.controlled("fix-fields", partition="p", expires="1h")
    def fix(run, table, *, limit=0) -> str:
        """Fix them."""
        assert app.control.get("fix-fields", "p").status is RunStatus.RUNNING
        return f"{run.name} {table} {limit}"

    assert fix("offer", limit=7) == "fix-fields offer 7"
    assert fix.__doc__ == "Fix them."
    assert app.control.get("fix-fields", "p").status is RunStatus.SUCCEEDED


async def test_a_decorated_async_function_has_its_own_name(app):
    @app.controlled()
    async def fix(run) -> str:
        return run.name

    @app.controlled
    def bare(run) -> str:
        return run.name

    assert (await fix(), bare()) == ("fix", "bare")


# What is kept


def test_the_fields_of_a_run_are_kept(app, clock):
    app.control.start("load", "p", "2h", data={"file": "a"})
    clock.forward("90s")
    app.control.error("load", "disk full", "p")

    row = app.control.get("load", "p")
    assert (row.name, row.partition, row.stat_date) == ("load", "p", "2026-01-01")
    assert (row.status, row.error, row.tries) == (RunStatus.FAILED, "disk full", 1)
    assert row.first_time == row.start_time
    assert row.expire_time == row.start_time + 7200 * 1_000_000
    assert row.end_time >= row.start_time + 90 * 1_000_000
    assert row.run_seconds == (row.end_time - row.start_time) / 1e6
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


# Bad input


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda control: control.start(""), BadKey),
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
        (lambda control: control.start("a", data=object()), NotSerializable),
        (lambda control: control.start("a", data={"x": float("nan")}), NotSerializable),
        (lambda control: control.start("a", data="x" * 300_000), NotSerializable),
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
        {"batch": app.control.get(name, name).batch, "tries": 1, "data": None} | {"done": []},
    )
