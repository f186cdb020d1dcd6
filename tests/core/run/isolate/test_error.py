"""What a handler raises in a child is, in the worker, the error that it was."""

import asyncio
import sys
import traceback
import urllib.error
from email.message import Message
from io import BytesIO

import msgspec
import pytest

from tests.core.run.isolate import jobs
from tests.table import failures, task
from windlass import Cancel, Retry, Snooze, Status
from windlass.core.run.isolate.error import error_of, sent_of
from windlass.core.run.isolate.wire import SentError
from windlass.errors import IdConflict, OutOfStock
from windlass.value.load.overload import overload_in


def crossed(error: BaseException) -> BaseException:
    """The error after its way from a child to the worker."""
    sent = msgspec.msgpack.encode(sent_of(error))
    return error_of(msgspec.msgpack.decode(sent, type=SentError))


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001
        return caught


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        OSError(2, "not found", "/a/b"),
        jobs.OutOfPaper("laser", 3),
        Retry("later", after="5s"),
        Snooze("1h"),
        Cancel("no longer wanted"),
        OutOfStock(sku="A", wanted=2, available=1),
        IdConflict(id="o-7", difference="lines"),
        KeyError("x"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_keeps_its_class_its_text_and_its_facts(error):
    found = crossed(error)

    assert type(found) is type(error)
    assert (str(found), found.args, vars(found)) == (str(error), error.args, vars(error))


def test_an_error_whose_class_is_not_loaded_is_a_child_of_one_that_is():
    class Local(jobs.OutOfPaper):
        pass

    found = crossed(Local("laser", 3))

    assert isinstance(found, jobs.OutOfPaper)
    assert (type(found).__name__, str(found), found.sheets) == ("Local", "laser has 3 sheets", 3)


def test_an_error_that_holds_what_cannot_cross_still_says_the_same():
    class Odd(Exception):
        def __init__(self, file: object) -> None:
            super().__init__(file)
            self.file = file

        def __str__(self) -> str:
            return f"about {self.file!r:.10}"

    found = crossed(Odd(BytesIO()))

    assert str(found) == "about <_io.Bytes"


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_what_would_end_the_worker_is_not_an_error_and_does_not_end_it(kind):
    found = crossed(kind("enough"))

    assert (type(found).__name__, str(found)) == (kind.__name__, "enough")
    assert not isinstance(found, kind | Exception)


def test_the_traceback_shows_the_lines_of_the_child():
    def inner() -> None:
        raise ValueError("deep")

    try:
        inner()
    except ValueError as error:
        # Its time and its place are those of another process.
        before = "".join(traceback.format_exception(error)).splitlines()
        after = "".join(traceback.format_exception(crossed(error))).splitlines()

    # Which part of a line it was is marked from Python 3.13 on, and does not cross.
    assert [line for line in before if not set(line.strip()) <= set("^~")] == after
    assert any(line.endswith("in inner") for line in after)


def test_causes_and_notes_cross_too():
    try:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error
    except ValueError as error:
        error.add_note("of order 7")
        found = crossed(error)

    assert found.__notes__ == ["of order 7"]
    assert isinstance(found.__cause__, KeyError)
    assert "direct cause" in "".join(traceback.format_exception(found))


def test_an_http_answer_that_says_to_call_later_still_says_it():
    headers = Message()
    headers["Retry-After"] = "7"
    error = urllib.error.HTTPError("http://x", 503, "busy", headers, None)

    found = overload_in(crossed(error))

    assert found is not None
    assert (found.status, found.retry_after.total_seconds()) == (503, 7)


def test_an_error_without_a_module_here_crosses():
    sent = sent_of(raised(ValueError("no")))
    elsewhere = msgspec.structs.replace(sent, classes=[("no.such", "Error"), *sent.classes])

    found = error_of(elsewhere)

    assert "no.such" not in sys.modules
    assert isinstance(found, ValueError)
    assert "no.such.Error: no" in traceback.format_exception_only(found)[0]


@pytest.mark.mostly("sqlite")
def test_retries_go_by_the_class_that_was_raised_in_the_child(app, clock):
    fail = app.task(
        isolate="process", keep="1d", retries={jobs.OutOfPaper: 1, Exception: 0}, backoff="1s"
    )(jobs.fail)
    ref = fail.enqueue(2)

    app.drain()
    clock.forward("1m")
    app.drain()

    assert ref.result() == "at last"
    (failure,) = failures(app)
    assert failure["error"] == "OutOfPaper: laser has 3 sheets"
    assert "FileNotFoundError" in failure["trace"]
    assert 'os.stat("/nowhere/at/all")' in failure["trace"]
    assert "windlass/core" not in failure["trace"]


@pytest.mark.mostly("sqlite")
def test_signals_say_what_becomes_of_the_task(app):
    signal = app.task(isolate="process")(jobs.signal_by_name)
    refs = {name: signal.enqueue(name) for name in ("retry", "cancel", "snooze", "overloaded")}

    now = app.clock.now()
    app.drain()

    rows = {name: task(app, ref) for name, ref in refs.items()}
    hours = {
        name: round((row["due_at"] - now) / 3.6e9)
        for name, row in rows.items()
        if row["status"] == Status.WAITING
    }
    assert hours == {"retry": 2, "snooze": 3, "overloaded": 4}
    assert rows["cancel"]["status"] == Status.CANCELLED
    assert rows["cancel"]["remark"] == "no longer wanted"
