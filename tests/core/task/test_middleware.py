"""`app.middleware`: user code around each enqueue and each run; and the hooks of a worker."""

import asyncio
import contextvars
import threading

import pytest

from tests.table import count, task
from windlass import App, BadDeclaration, Cancel, Keys, Retry, Status, WindlassError, context

EITHER = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
HANDLER = pytest.mark.parametrize("handles_async", [False, True], ids=["def", "async def"])

request = contextvars.ContextVar("request", default="none")


def add(app, is_async, before=lambda context: None, after=lambda context, result: None):
    """A middleware of either form."""

    def sync(call, context):
        before(context)
        result = call()
        after(context, result)

    async def coroutine(call, context):
        before(context)
        result = await call()
        after(context, result)

    return app.middleware(coroutine if is_async else sync)


def declare(app, handles_async, body, **options):
    if handles_async:

        @app.task(name="handler", **options)
        async def handler(number: int = 0) -> object:
            await asyncio.sleep(0)
            return body(number)

    else:

        @app.task(name="handler", **options)
        def handler(number: int = 0) -> object:
            return body(number)

    return handler


@EITHER
@HANDLER
def test_a_middleware_is_around_the_enqueue_and_the_run(app, is_async, handles_async):
    seen = []
    add(app, is_async, lambda it: seen.append(("before", it)), lambda *it: seen.append(it))
    handler = declare(app, handles_async, lambda number: number + 1)

    ref = handler.using(key="seven").enqueue(number=7)
    app.drain()

    (_, enqueue), (_, refs), (_, run), (_, result) = seen
    assert (enqueue.stage, enqueue.kind, enqueue.key) == ("enqueue", "handler", "seven")
    assert (enqueue.kwargs, enqueue.task_id, enqueue.attempt) == ({"number": 7}, None, None)
    assert refs == [ref]
    assert (run.stage, run.kind, run.key) == ("run", "handler", "seven")
    assert (run.kwargs or run.args, run.task_id, run.attempt) == ({"number": 7}, ref.id, 1)
    assert result == ref.result() == 8


@EITHER
async def test_a_middleware_is_around_an_awaited_enqueue(app, is_async):
    seen = []
    add(app, is_async, lambda it: seen.append(it.stage))
    handler = declare(app, True, lambda number: number)

    ref = await handler.aenqueue(number=7)
    await app.adrain()

    assert seen == ["enqueue", "run"]
    assert await ref.aresult() == 7


@pytest.mark.parametrize("forms", [(False, True, False), (True, False, True)])
@HANDLER
def test_the_first_middleware_is_the_outermost_whatever_its_form(app, forms, handles_async):
    seen = []
    for index, is_async in enumerate(forms):
        add(
            app,
            is_async,
            lambda it, index=index: seen.append((it.stage, index)),
            lambda it, _, index=index: seen.append((it.stage, index)),
        )
    handler = declare(app, handles_async, lambda number: number)

    handler.enqueue()
    app.drain()

    assert [index for stage, index in seen if stage == "enqueue"] == [0, 1, 2, 2, 1, 0]
    assert [index for stage, index in seen if stage == "run"] == [0, 1, 2, 2, 1, 0]


@EITHER
@HANDLER
def test_a_handler_sees_what_its_middleware_sets_and_its_own_context(app, is_async, handles_async):
    add(app, is_async, lambda it: request.set(f"{it.kind} {it.task_id}"))
    handler = declare(app, handles_async, lambda _: [request.get(), context().task_id])

    ref = handler.enqueue()
    app.drain()

    assert ref.result() == [f"handler {ref.id}", ref.id]


@EITHER
@HANDLER
def test_an_error_before_the_call_fails_the_run_by_the_rules_of_retries(
    app, clock, is_async, handles_async
):
    calls = []

    def refuse(it):
        if it.stage == "run" and it.attempt == 1:
            raise ConnectionError("no span")

    add(app, is_async, refuse)
    handler = declare(app, handles_async, calls.append, retries=1, keep="1d")
    ref = handler.enqueue(number=3)
    app.drain()

    assert (calls, task(app, ref)["remark"]) == ([], "ConnectionError: no span")
    clock.forward("1h")
    app.drain()
    assert (calls, ref.status()) == ([3], Status.SUCCEEDED)


@EITHER
@pytest.mark.parametrize("awaits", [False, True], ids=["enqueue", "aenqueue"])
async def test_an_error_at_the_enqueue_reaches_the_caller_and_nothing_is_written(
    app, is_async, awaits
):
    def refuse(it):
        raise PermissionError(it.kind)

    add(app, is_async, refuse)
    handler = declare(app, False, lambda number: number)
    app.prepare()

    with pytest.raises(PermissionError, match="handler"):
        await (handler.aenqueue() if awaits else asyncio.to_thread(handler.enqueue))

    assert count(app) == 0


@EITHER
@HANDLER
def test_a_middleware_sees_errors_and_cannot_hide_them(app, is_async, handles_async):
    seen = []

    def swallow(call, it):
        try:
            return call()
        except ValueError as error:
            seen.append(str(error))

    async def aswallow(call, it):
        try:
            return await call()
        except ValueError as error:
            seen.append(str(error))

    app.middleware(aswallow if is_async else swallow)

    def fail(number):
        raise ValueError("no such number")

    ref = declare(app, handles_async, fail, retries=0).enqueue()
    app.drain()

    assert seen == ["no such number"]
    assert task(app, ref)["remark"] == "ValueError: no such number"


@HANDLER
def test_what_a_middleware_returns_changes_nothing(app, handles_async):
    @app.middleware
    def forget(call, it):
        call()

    ref = declare(app, handles_async, lambda number: number + 1).enqueue(number=1)
    app.drain()

    assert ref.result() == 2


@pytest.mark.parametrize("times", [0, 2])
@HANDLER
def test_a_middleware_must_call_once(app, handles_async, times):
    calls = []

    @app.middleware
    def careless(call, it):
        for _ in range(times if it.stage == "run" else 1):
            call()

    ref = declare(app, handles_async, calls.append, retries=0).enqueue(number=5)
    app.drain()

    assert task(app, ref)["status"] == Status.FAILED
    said = "did not call call()" if times == 0 else "called call() a second time"
    assert said in task(app, ref)["remark"]
    assert calls == [5][:times]


@EITHER
@HANDLER
def test_a_middleware_may_skip_a_run_by_cancelling_it(app, is_async, handles_async):
    def skip(it):
        if it.stage == "run":
            raise Cancel("not in this region")

    add(app, is_async, skip)
    ref = declare(app, handles_async, lambda number: number).enqueue()
    app.drain()

    assert task(app, ref)["status"] == Status.CANCELLED


@pytest.mark.mostly("sqlite")
def test_a_run_that_times_out_ends_its_sync_middleware_too(app):
    ended = threading.Event()

    @app.middleware
    def around(call, it):
        try:
            call()
        finally:
            if it.stage == "run":
                ended.set()

    @app.task(timeout="50ms")
    async def hang() -> None:
        await asyncio.Event().wait()

    ref = hang.enqueue()
    app.drain()

    assert "did not end within" in task(app, ref)["remark"]
    assert ended.wait(10)


@pytest.mark.mostly("sqlite")
def test_a_sync_middleware_takes_no_thread_that_async_handlers_need(app):
    """Handlers that use the pool of the event loop would else wait for each other for ever."""
    app.middleware(lambda call, it: call())

    @app.task
    async def work(number: int) -> int:
        return await asyncio.to_thread(lambda: number)

    refs = work.enqueue_many([{"number": number} for number in range(100)])
    app.drain()

    assert [ref.result() for ref in refs] == list(range(100))


@pytest.mark.mostly("sqlite")
def test_a_sync_handler_may_use_an_event_loop_inside_an_async_middleware(app):
    add(app, True)

    @app.task
    def work() -> int:
        async def answer():
            return 42

        return asyncio.run(answer())

    ref = work.enqueue()
    app.drain()

    assert ref.result() == 42


@EITHER
def test_every_face_runs_inside_its_middleware(app, clock, is_async):
    seen = []
    add(app, is_async, lambda it: seen.append((it.stage, it.kind, it.key, it.args)))

    @app.cron("0 3 * * *")
    def nightly() -> None: ...

    @app.rolling(every="10d")
    def stock(code: str) -> None: ...

    @app.sweep(Keys(1, 2), ranges=1)
    def offer(key: int) -> None: ...

    @app.sweep(Keys(1, 4), ranges=1, many=True)
    async def price(keys: list[int]) -> None: ...

    @app.task
    def pack(order: str) -> str:
        return order

    @app.flow
    def ship(flow, order: str):
        flow.add(pack, order)

    app.drain()
    clock.forward("1d")
    stock.add(["bolt"])
    ship.start("order-7")
    app.drain()

    assert ("run", "nightly", "windlass:cron", ()) in seen
    assert ("run", "stock", "bolt", ("bolt",)) in seen
    assert {it for it in seen if it[1] == "offer"} == {
        ("run", "offer", "1", (1,)),
        ("run", "offer", "2", (2,)),
    }
    assert [it[3] for it in seen if it[1] == "price"] == [([1, 2, 3, 4],)]
    assert ("enqueue", "ship", None, ("order-7",)) in seen
    assert [it[0] for it in seen if it[1] == "pack"] == ["run"]


@EITHER
@HANDLER
def test_visits_run_inside_their_middleware(app, is_async, handles_async):
    seen = []
    add(app, is_async, lambda it: seen.append((it.stage, it.kind, it.key)))

    if handles_async:

        @app.sweep(Keys(1, 9))
        async def offer(key: int) -> None: ...

        @app.rolling(every="10d")
        async def stock(code: str) -> None: ...

    else:

        @app.sweep(Keys(1, 9))
        def offer(key: int) -> None: ...

        @app.rolling(every="10d")
        def stock(code: str) -> None: ...

    stock.add(["bolt"])
    offer.visit(7)
    stock.visit("bolt", timeout="30s")

    assert seen == [("run", "offer", "7"), ("run", "stock", "bolt")]


def test_many_tasks_are_enqueued_inside_one_call(app):
    seen = []
    add(app, False, seen.append)
    handler = declare(app, False, lambda number: number)

    handler.enqueue_many([{"number": 1}, {"number": 2}], keys=["a", "b"])

    (it,) = seen
    assert [call.kwargs for call in it.calls] == [{"number": 1}, {"number": 2}]
    assert [call.key for call in it.calls] == ["a", "b"]


def test_a_context_cannot_be_changed(app):
    @app.middleware
    def change(call, it):
        it.kind = "other"

    with pytest.raises(AttributeError):
        declare(app, False, lambda number: number).enqueue()


def test_a_middleware_that_is_no_function_is_refused(app):
    with pytest.raises(BadDeclaration, match="is not a function"):
        app.middleware("around")
    with pytest.raises(BadDeclaration, match="is not a function"):
        app.on_worker_start(7)


def test_hooks_are_called_once_around_the_work_of_a_worker(app):
    seen = []

    @app.on_worker_start
    def open_pool():
        seen.append("open")

    @app.on_worker_start
    async def warm_up():
        seen.append("warm")

    @app.on_worker_stop
    async def close_pool():
        seen.append("close")

    @app.on_worker_stop
    def cool_down():
        seen.append("cool")

    declare(app, False, lambda _: seen.append("run")).enqueue()
    app.drain()

    assert seen == ["open", "warm", "run", "cool", "close"]


@pytest.mark.mostly("sqlite")
def test_hooks_of_an_app_with_shards_are_called_once(sqlite_url, second_sqlite_url):
    app = App(sqlite_url, second_sqlite_url)
    seen = []
    app.on_worker_start(lambda: seen.append("start"))
    app.on_worker_stop(lambda: seen.append("stop"))

    app.drain()
    app.close()

    assert seen == ["start", "stop"]


def test_a_start_hook_that_fails_stops_the_worker_before_it_joins(app):
    calls = []

    @app.on_worker_start
    def open_pool():
        raise OSError("no pool")

    declare(app, False, calls.append).enqueue()
    with pytest.raises(WindlassError, match="open_pool' failed: OSError: no pool"):
        app.drain()

    assert calls == []


def test_a_stop_hook_that_fails_is_logged_and_the_others_are_called(app, caplog):
    seen = []
    app.on_worker_stop(lambda: seen.append("last"))

    @app.on_worker_stop
    def close_pool():
        raise OSError("still open")

    app.drain()

    (record,) = [each for each in caplog.records if each.event == "hook.failed"]
    assert "close_pool failed: OSError: still open" in record.getMessage()
    assert record.exc_info
    assert seen == ["last"]


def test_a_retry_that_a_middleware_asks_for_is_one(app, clock):
    @app.middleware
    def busy(call, it):
        if it.stage == "run" and it.attempt == 1:
            raise Retry(after="10s")
        call()

    ref = declare(app, True, lambda number: number).enqueue(number=4)
    app.drain()
    clock.forward("11s")
    app.drain()

    assert ref.result() == 4
