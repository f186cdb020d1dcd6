"""What a handler returns or raises, and what becomes of its row."""

import asyncio
import logging
import sys
from datetime import UTC, datetime
from enum import Enum
from uuid import UUID

import msgspec
import pytest

from tests.table import count, failures, task, tasks
from windlass import (
    Cancel,
    ResultTimeout,
    Retry,
    Snooze,
    Status,
    TaskCancelled,
    TaskFailed,
    TaskNotFound,
    context,
)
from windlass.clock import SECOND

pytestmark = pytest.mark.mostly("sqlite", "mariadb")


def declare(app, body, *, is_async, **options):
    """A task named `handle` whose sync or async function does what `body` does."""
    if is_async:

        async def handle(*, number: int = 0):
            await asyncio.sleep(0)
            return body(number)
    else:

        def handle(*, number: int = 0):
            return body(number)

    return app.task(**options)(handle)


EITHER = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@EITHER
def test_a_result_is_kept_and_read_back(app, is_async):
    double = declare(app, lambda number: {"twice": 2 * number}, is_async=is_async)

    ref = double.enqueue(number=21)
    app.drain()

    assert ref.result() == {"twice": 42}
    assert task(app, ref)["status"] == Status.SUCCEEDED
    assert app.ref(ref.id).result() == {"twice": 42}


async def test_a_result_may_be_awaited(app):
    double = declare(app, lambda number: 2 * number, is_async=True)

    ref = await double.aenqueue(number=21)
    waiting = asyncio.create_task(ref.aresult(timeout="10s"))
    await app.adrain()

    assert await waiting == 42


class Colour(Enum):
    RED = "red"


class Parcel(msgspec.Struct):
    weight: float
    sent_at: datetime
    colour: Colour


def test_a_result_comes_back_as_the_type_the_handler_promises(app):
    parcel = Parcel(1.5, datetime(2026, 1, 1, tzinfo=UTC), Colour.RED)
    number = UUID(int=7)

    @app.task
    def pack() -> Parcel:
        return parcel

    @app.task
    def numbers() -> dict[str, list[UUID]]:
        return {"a": [number]}

    packed, numbered = pack.enqueue(), numbers.enqueue()
    app.drain()

    assert packed.result() == parcel
    assert numbered.result() == {"a": [number]}


def test_a_result_that_breaks_the_handlers_promise_is_still_readable(app):
    @app.task
    def lie() -> int:
        return "seven"

    ref = lie.enqueue()
    app.drain()

    assert ref.result() == "seven"


@pytest.mark.parametrize(
    "result", ["", 0, False, [], {}, 'snow ☃ 🚢 \\ " \x00 \n', 2**63 - 1, -1.5, [None, {"a": [1]}]]
)
def test_plain_results_come_back_as_they_were(app, result):
    @app.task
    def give():
        return result

    ref = give.enqueue()
    app.drain()

    back = ref.result()
    assert back == result
    assert type(back) is type(result)


def test_a_result_of_64_kib_is_kept(app):
    @app.task
    def give() -> str:
        return "x" * (64 * 1024 - 2)

    ref = give.enqueue()
    app.drain()

    assert len(ref.result()) == 64 * 1024 - 2


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: "x" * 64 * 1024, "65,538 bytes as JSON, over the limit of 65,536"),
        (object, "cannot be kept"),
        (lambda: "\ud800", "cannot be kept"),
    ],
)
@EITHER
def test_a_result_that_cannot_be_kept_fails_the_task_without_a_retry(app, make, said, is_async):
    give = declare(app, lambda _: make(), is_async=is_async, retries=5)

    ref = give.enqueue()
    app.drain()

    with pytest.raises(TaskFailed, match=said):
        ref.result()
    row = task(app, ref)
    assert (row["status"], row["attempt"]) == (Status.FAILED, 1)


@EITHER
def test_a_failure_without_retries_is_final_and_remembered(app, is_async):
    def body(number):
        raise ValueError(f"bad {number}")

    fail = declare(app, body, is_async=is_async)

    ref = fail.enqueue(number=7)
    app.drain()

    assert ref.status() is Status.FAILED
    with pytest.raises(TaskFailed, match=f"task {ref.id} failed: ValueError: bad 7") as raised:
        ref.result()
    assert (raised.value.task_id, raised.value.error) == (ref.id, "ValueError: bad 7")
    row = task(app, ref)
    assert (row["attempt"], row["due_at"], row["batch"]) == (1, None, None)
    assert row["remark"] == "ValueError: bad 7"
    (failure,) = failures(app)
    assert (failure["task_id"], failure["kind"], failure["attempt"]) == (ref.id, "handle", 1)
    assert "raise ValueError" in failure["trace"]


def test_an_ended_task_is_never_run_again(app, clock):
    seen = []

    @app.task(keep="1h")
    def succeed() -> None:
        seen.append("succeed")

    @app.task
    def fail() -> None:
        seen.append("fail")
        raise ValueError

    succeed.enqueue(), fail.enqueue()
    app.drain()
    clock.forward("30m")
    app.drain()

    assert sorted(seen) == ["fail", "succeed"]


@EITHER
def test_retry_runs_the_task_again_after_the_time_it_names(app, clock, is_async):
    seen = []

    def body(_):
        seen.append(context().attempt)
        if len(seen) < 3:
            raise Retry("not yet", after="10s")
        return "done"

    ask = declare(app, body, is_async=is_async, retries=5, backoff="1h")
    ref = ask.enqueue()
    app.drain()

    row = task(app, ref)
    assert (row["status"], row["attempt"], row["remark"]) == (0, 1, "Retry: not yet")
    assert row["due_at"] - row["finished_at"] == 10 * SECOND
    clock.forward("9s")
    app.drain()
    assert seen == [1]
    clock.forward("1s")
    app.drain()
    clock.forward("10s")
    app.drain()
    assert seen == [1, 2, 3]
    assert ref.result() == "done"


def test_retry_uses_up_the_retries(app, clock):
    @app.task(retries=1)
    def ask() -> None:
        raise Retry("busy", after="1s")

    ref = ask.enqueue()
    app.drain()
    clock.forward("1s")
    app.drain()

    with pytest.raises(TaskFailed, match="no retry was left: busy"):
        ref.result()
    assert task(app, ref)["attempt"] == 2


def test_retry_without_a_time_waits_for_the_back_off(app):
    @app.task(retries=1, backoff="100s")
    def ask() -> None:
        raise Retry

    ref = ask.enqueue()
    app.drain()

    row = task(app, ref)
    assert 75 * SECOND <= row["due_at"] - row["finished_at"] <= 125 * SECOND


@EITHER
def test_cancel_ends_the_task_whatever_retries_are_left(app, is_async):
    def body(_):
        raise Cancel("sold out")

    give_up = declare(app, body, is_async=is_async, retries=5)

    ref = give_up.enqueue()
    app.drain()

    assert ref.status() is Status.CANCELLED
    with pytest.raises(TaskCancelled, match=f"task {ref.id} was cancelled: sold out") as raised:
        ref.result()
    assert raised.value.reason == "sold out"
    assert failures(app) == []


@EITHER
def test_snooze_puts_the_task_off_and_costs_nothing(app, clock, is_async):
    seen = []

    def body(_):
        seen.append(context().attempt)
        if len(seen) < 4:
            raise Snooze("1h")

    wait = declare(app, body, is_async=is_async, retries=0)
    ref = wait.enqueue()
    app.drain()

    row = task(app, ref)
    assert (row["status"], row["attempt"], row["lost"]) == (0, 0, 0)
    for _ in range(3):
        app.drain()
        clock.forward("1h")
        app.drain()
    assert seen == [1, 1, 1, 1]
    assert ref.status() is Status.SUCCEEDED
    assert failures(app) == []


@pytest.mark.parametrize(
    "signal", [Retry(after="soon"), Snooze("-1s"), Snooze(7)], ids=["retry", "snooze", "number"]
)
def test_a_signal_with_a_bad_duration_fails_the_task_with_that_error(app, signal):
    @app.task(retries=3)
    def ask() -> None:
        raise signal

    ref = ask.enqueue()
    app.drain()

    with pytest.raises(TaskFailed, match="BadDuration"):
        ref.result()


@pytest.mark.parametrize("text", ["nul \x00 byte", "lone \ud800 surrogate", "ship 🚢", "x" * 5000])
@pytest.mark.parametrize("make", [Cancel, ValueError], ids=["cancel", "error"])
def test_any_text_of_a_handler_can_be_recorded(app, text, make, caplog):
    # The run's own log would carry the text to another process, which is not what is tried here.
    caplog.set_level(logging.CRITICAL, logger="windlass")

    @app.task
    def speak() -> None:
        raise make(text)

    @app.task
    def innocent() -> int:
        return 1

    ref, beside = speak.enqueue(), innocent.enqueue()
    app.drain()

    row = task(app, ref)
    assert row["status"] == (Status.CANCELLED if make is Cancel else Status.FAILED)
    assert text[:3] in row["remark"]
    assert len(row["remark"]) <= 1000
    assert beside.result() == 1


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
@EITHER
def test_a_handler_cannot_take_the_worker_down(app, error, is_async):
    def body(number):
        if number == 13:
            raise error
        return number

    handle = declare(app, body, is_async=is_async, concurrency=1)

    bad = handle.enqueue(number=13)
    good = handle.enqueue(number=14)
    app.drain()

    assert bad.status() is Status.FAILED
    assert good.result() == 14


async def test_a_cancelled_error_of_the_handlers_own_is_a_failure(app):
    @app.task
    async def handle() -> None:
        raise asyncio.CancelledError("mine")

    @app.task
    async def after() -> int:
        return 1

    ref, good = await handle.aenqueue(), await after.aenqueue()
    await app.adrain()

    assert await ref.astatus() is Status.FAILED
    assert await good.aresult() == 1


def test_an_error_that_cannot_even_be_shown_is_a_failure(app):
    class Unspeakable(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    @app.task
    def handle() -> None:
        raise Unspeakable

    ref = handle.enqueue()
    app.drain()

    assert ref.status() is Status.FAILED


def test_a_sync_handler_may_exit_its_own_thread_pool(app):
    @app.task
    def leave() -> None:
        sys.exit("enough")

    refs = leave.enqueue_many([{}] * 50)
    app.drain()

    assert {ref.status() for ref in refs} == {Status.FAILED}
    assert len(failures(app)) == 50


def test_result_gives_up_after_its_timeout(app):
    @app.task
    def never() -> None: ...

    ref = never.enqueue()

    with pytest.raises(ResultTimeout, match=f"task {ref.id} is still waiting after 0.02 s"):
        ref.result(timeout=0.02)
    with pytest.raises(TimeoutError):
        ref.result(timeout="10ms")


def test_the_result_of_what_was_not_kept_is_nothing(app):
    @app.task
    def quiet() -> None: ...

    ref = quiet.enqueue()
    app.drain()

    assert count(app) == 0
    assert ref.result() is None


def test_a_number_that_was_never_a_task_is_not_found(app):
    unknown = app.ref(10**12)

    for ask in (unknown.status, unknown.result):
        with pytest.raises(TaskNotFound, match=f"task {10**12} not found"):
            ask()
    assert unknown.cancel() is False


def test_odd_arguments_reach_the_handler_as_they_were(app):
    seen = []
    odd = ["", " ", "null", "🚢 ☃ é", "\x00", "\\", '"', "\u2028", "'; drop table x; --", "a\tb\nc"]

    @app.task(concurrency=1)
    def handle(text: str, more: dict[str, list[str]]) -> None:
        seen.append((text, more))

    handle.enqueue_many([{"text": text, "more": {text: [text]}} for text in odd])
    for text in odd:
        handle.enqueue(text, {text: [text]})
    app.drain()

    assert seen == 2 * [(text, {text: [text]}) for text in odd]


def test_kinds_that_differ_by_case_or_a_blank_are_two_kinds(app):
    seen = []

    for name in ("mail", "Mail", "m ail", "máil"):

        def handle(name: str = name) -> None:
            seen.append(name)

        app.task(name=name)(handle).enqueue()
    app.drain()

    assert sorted(seen) == sorted(["mail", "Mail", "m ail", "máil"])
    assert tasks(app) == []
