"""Named runs that a block or a function holds."""

import asyncio
import copy
import io
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from tests.wait import eventually
from windlass import (
    AlreadyRunning,
    App,
    BadInput,
    BadStep,
    RunLost,
    RunStatus,
)
from windlass.control.engine.hold import LeaseRenewal
from windlass.control.engine.register import Register
from windlass.control.model.control import LoopProgress
from windlass.database.database import Database


def test_a_block_holds_its_run_and_finishes_it(app, other, control_events):
    with app.control("load", "p", data={"file": "a"}) as run:
        with pytest.raises(AlreadyRunning) as refused:
            other.control("load", "p").__enter__()
        assert (run.name, run.partition, run.tries, run.data) == ("load", "p", 1, {"file": "a"})
        assert run.batch == app.control.get("load", "p").batch
        run.step("parse")

    row = app.control.get("load", "p")
    assert (refused.value.name, refused.value.partition) == ("load", "p")
    assert refused.value.who == row.who
    assert refused.value.since == row.start_time
    assert refused.value.step is None
    assert (row.status, row.error, row.step) == (RunStatus.SUCCEEDED, None, "parse")
    assert row.run_seconds >= 0
    assert control_events == ["control.started", "control.finished"]


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
        with pytest.raises(BadStep, match="step 2 goes backwards"):
            await run.astep(2, rows)
        await run.anote({"seen": 1})

    row = app.control.get("load")
    assert (row.status, row.data) == (RunStatus.SUCCEEDED, {"seen": 1})


def test_an_exception_is_recorded_with_its_traceback_and_raised_again(app, control_events):
    with pytest.raises(ZeroDivisionError), app.control("load") as run:
        run.step("divide")
        raise ZeroDivisionError("division by zero")

    row = app.control.get("load")
    assert (row.status, row.step) == (RunStatus.FAILED, "divide")
    assert row.error.startswith("ZeroDivisionError: division by zero\n")
    assert 'raise ZeroDivisionError("division' in row.error
    assert control_events == ["control.started", "control.failed"]


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
def test_a_lost_run_raises_at_its_next_call_and_changes_nothing(
    app, other, clock, control_events, call
):
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
    assert control_events.count("control.lost") == 1
    assert "control.failed" not in control_events


def test_an_error_in_a_lost_run_is_the_error_of_the_block(app, other, clock, control_events):
    with pytest.raises(OSError, match="disk"), app.control("load", expires="1h"):
        clock.forward("2h")
        other.control.start("load")
        raise OSError("disk full")

    assert app.control.get("load").status is RunStatus.RUNNING
    assert control_events == ["control.started", "control.started", "control.lost"]


def test_the_heartbeat_keeps_a_run_and_without_it_the_lease_runs_out(app, other, clock):
    with pytest.raises(RunLost), app.control("load") as run:
        beat = LeaseRenewal(run._held.renew, every=15.0)
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
        assert run._held.renewal is None
        row = app.control.get("load")
    assert row.expire_time - row.start_time == timedelta(hours=1)


def test_the_heartbeat_ends_with_the_block(app):
    with app.control("load") as run:
        thread = run._held.renewal._thread
        assert thread.is_alive()
    assert not thread.is_alive()


def test_notes_are_merged_and_progress_is_a_number_in_the_table(app):
    with app.control("load", data={"a": 1}) as run:
        run.note({"b": 2})
        assert list(run.track(iter("abc"), total=3)) == ["a", "b", "c"]
        assert app.control.get("load").progress == LoopProgress(3, 3)
        run.note({"b": 3})
        assert run.data == {"a": 1, "b": 3}
        for _ in run.track(range(10)):
            break

    row = app.control.get("load")
    assert row.data == {"a": 1, "b": 3}
    assert row.progress == LoopProgress(0, 10)


async def test_progress_has_an_async_twin(app):
    async with app.control("load") as run:
        assert [item async for item in run.atrack([1, 2])] == [1, 2]

    assert app.control.get("load").progress == LoopProgress(2, 2)


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


def test_a_run_lost_in_a_block_within_another_ends_the_outer_one(app, other, clock):
    with pytest.raises(RunLost), app.control("outer"), app.control("inner", expires="1s") as run:
        clock.forward("2s")
        other.control.start("inner")
        run.step(1)

    assert app.control.get("outer").status is RunStatus.FAILED
    assert app.control.get("outer").error.startswith("RunLost: control 'inner'")
    assert app.control.get("inner").status is RunStatus.RUNNING


@pytest.fixture
def slow_start(app, monkeypatch):
    """Starts are slow: when they are written, they wait until they may go on."""
    app.prepare()
    written, may_go_on = threading.Event(), threading.Event()
    start = Register.start

    def slow(self, *args, **kwargs):
        reply = start(self, *args, **kwargs)
        written.set()
        may_go_on.wait(10.0)
        return reply

    monkeypatch.setattr(Register, "start", slow)
    return written, may_go_on


async def test_an_async_block_that_is_cancelled_while_it_starts_holds_nothing(app, slow_start):
    written, may_go_on = slow_start
    entering = asyncio.create_task(app.control("load").__aenter__())
    await asyncio.to_thread(written.wait, 10.0)

    entering.cancel()
    await asyncio.sleep(0)
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await entering

    await asyncio.to_thread(eventually, lambda: app.control.get("load").error == "interrupted")
    names = [thread.name for thread in threading.enumerate()]
    assert "windlass-control" not in names


def test_loops_within_loops_count_for_themselves(app):
    seen = []
    with app.control("load") as run:
        for _ in run.track(range(2)):
            list(run.track("abc"))
            seen.append(app.control.get("load").progress)

    assert seen == [LoopProgress(3, 3), LoopProgress(3, 3)]
    assert app.control.get("load").progress == LoopProgress(2, 2)


@pytest.mark.parametrize("total", [-1, "3", 1.5, True, 2**60])
def test_a_total_that_is_not_a_count_is_a_clear_error(app, total):
    with app.control("load") as run, pytest.raises(BadInput, match="total="):
        list(run.track([1], total=total))

    assert app.control.get("load").progress is None


def test_a_bar_on_a_terminal_takes_any_name_as_it_is(app, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)

    with app.control("a[/b]", "2026") as run:
        assert list(run.track(iter("abc"))) == ["a", "b", "c"]

    assert "a[/b] 2026" in terminal.getvalue()
    assert "3/?" in terminal.getvalue()


def test_a_run_is_used_inside_its_block_only(app, control_events):
    run = app.control("load")
    with pytest.raises(BadInput, match="enter it with `with` first"):
        run.error("why")
    with run:
        pass

    for call in (lambda: run.step(1), lambda: run.note({}), lambda: run.error("why")):
        with pytest.raises(BadInput, match="its block has ended"):
            call()
    assert "control.lost" not in control_events


def test_a_run_may_be_entered_again(app):
    run = app.control("load")
    for _ in range(2):
        with run:
            run.step(1)

    assert run.tries == 1
    assert app.control.get("load").status is RunStatus.SUCCEEDED


@pytest.mark.parametrize("kind", ["generator", "async generator", "number"])
def test_what_cannot_be_held_cannot_be_controlled(app, kind):
    def numbers(run):
        yield run

    async def later(run):
        yield run

    function = {"generator": numbers, "async generator": later, "number": 5}[kind]
    with pytest.raises(BadInput, match=r"@app\.controlled"):
        app.controlled("load")(function)


@pytest.mark.parametrize("options", [{"expires": "soon"}, {"partition": None}, {"name": ""}])
def test_bad_options_of_a_function_are_told_when_it_is_declared(app, options):
    with pytest.raises(BadInput):
        app.controlled(**options)


def test_an_error_that_cannot_be_written_as_text_is_recorded_all_the_same(app):
    class OddError(Exception):
        def __str__(self):
            raise ValueError

    with pytest.raises(OddError), app.control("load"):
        raise OddError

    assert "OddError" in app.control.get("load").error


def test_the_lease_is_renewed_while_the_block_runs(database_url):
    with closing(App(database_url)) as app, app.control("load", lease="200ms"):
        first = app.control.get("load").expire_time
        eventually(lambda: app.control.get("load").expire_time > first + timedelta(seconds=0.3))


def test_a_run_cannot_be_entered_twice_at_once(app, clock):
    run = app.control("load", expires="1s")
    with run:
        clock.forward("2s")
        with pytest.raises(BadInput, match="entered already"):
            run.__enter__()

    assert app.control.get("load").tries == 1


@pytest.mark.parametrize("code", [None, 0])
def test_to_exit_well_is_to_finish(app, code):
    with pytest.raises(SystemExit), app.control("load"):
        raise SystemExit(code)

    assert app.control.get("load").status is RunStatus.SUCCEEDED


def test_to_exit_with_a_code_is_to_fail(app):
    with pytest.raises(SystemExit), app.control("load"):
        raise SystemExit(3)

    assert app.control.get("load").error.startswith("SystemExit: 3")


def test_an_error_that_cannot_be_recorded_is_still_the_error_of_the_block(app, monkeypatch):
    with pytest.raises(OSError, match="disk full"), app.control("load", expires="1h"):
        monkeypatch.setattr(Register, "change", lambda *_, **__: 1 / 0)
        raise OSError("disk full")


def test_an_interrupt_while_the_start_is_awaited_holds_nothing(app, monkeypatch):
    app.prepare()
    write = Database.write

    def interrupted(self, work, **options):
        write(self, work, **options)
        monkeypatch.setattr(Database, "write", write)
        raise KeyboardInterrupt

    app.fleet.shards[0].numbers.take()
    monkeypatch.setattr(Database, "write", interrupted)
    with pytest.raises(KeyboardInterrupt), app.control("load", expires="2h"):
        pytest.fail("it was interrupted")

    assert app.control.get("load").error == "interrupted"


async def test_the_function_of_an_async_step_does_not_stop_the_loop(app):
    here = threading.get_ident()

    async with app.control("load") as run:
        assert await run.astep(1, threading.get_ident) != here


@pytest.mark.parametrize("tracked", ["sync", "async"])
async def test_progress_is_recorded_by_the_error_that_breaks_it_off(app, tracked):
    with pytest.raises(OSError, match="disk"):
        async with app.control("load") as run:
            if tracked == "sync":
                for item in run.track(range(5)):
                    if item == 3:
                        raise OSError("disk full")
            async for item in run.atrack(range(5)):
                if item == 3:
                    raise OSError("disk full")

    assert app.control.get("load").progress == LoopProgress(3, 5)


def test_errors_of_runs_can_be_copied_and_sent():
    since = datetime(2026, 1, 1, tzinfo=UTC)
    refused = AlreadyRunning("load", "p", who="ada", since=since, step=3)
    lost = RunLost("load", "p", why="it was released")

    for error in (refused, lost):
        again = copy.copy(error)
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
