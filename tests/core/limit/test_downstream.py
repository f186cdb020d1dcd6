"""A downstream: its kinds together keep its rate, its concurrency, its window and its breaker."""

import threading
import time
from contextlib import closing

import pytest

from tests.core.limit.pace import most_within
from tests.core.limit.service import begin, end_next
from tests.core.run.working import sql, switch_of, working
from tests.table import count
from tests.wait import eventually
from windlass import App, BadBreaker, BadDeclaration, BadRate, BadWindow, HeldBack, UnknownKind
from windlass.core.limit.store import switches
from windlass.core.limit.switch import held_back
from windlass.value.breaker import BreakerState
from windlass.value.outcome import Failed, Succeeded


class Server:
    """The other side: it counts its calls, and how many it answers at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.calls: list[float] = []
        self.now = self.peak = 0
        self.is_down = False
        self.may_end = threading.Event()
        self.may_end.set()

    def call(self) -> None:
        with self.lock:
            self.calls.append(time.monotonic())
            self.now += 1
            self.peak = max(self.peak, self.now)
        try:
            assert self.may_end.wait(10)
            if self.is_down:
                raise ConnectionError("the server is down")
        finally:
            with self.lock:
                self.now -= 1


@pytest.fixture
def server():
    return Server()


def declare(app, server, **limits):
    """A downstream and two kinds that call it."""
    inventory = app.downstream("inventory", **limits)

    @app.task(downstream=inventory, keep_failed="1d")
    def look(number: int = 0) -> None:
        server.call()

    @app.task(downstream="inventory", keep_failed="1d")
    async def book(number: int = 0) -> None:
        server.call()

    return look, book


def why(app, kind="look"):
    found = app.database.read(switches)
    row = found.of(kind)
    return held_back(app.registry.get(kind), row, now=app.clock.now(), others=found)


def test_all_kinds_together_keep_the_concurrency(database_url, server):
    with closing(App(database_url)) as first, closing(App(database_url)) as second:
        look, book = declare(first, server, concurrency=2)
        declare(second, server, concurrency=2)
        look.enqueue_many([{}] * 40)
        book.enqueue_many([{}] * 40)

        with working(first), working(second):
            eventually(lambda: count(first) == 0, 30)

    assert len(server.calls) == 80
    assert server.peak <= 2


def test_total_concurrency_is_for_the_whole_fleet(database_url, server):
    with closing(App(database_url)) as first, closing(App(database_url)) as second:
        for app in (first, second):

            @app.task(total_concurrency=3)
            def look() -> None:
                server.call()

        look.enqueue_many([{}] * 30)

        with working(first), working(second):
            eventually(lambda: count(first) == 0, 30)

    assert server.peak <= 3


def test_all_kinds_together_keep_the_rate(app, server):
    look, book = declare(app, server, rate="40/s")
    look.enqueue_many([{}] * 30)
    book.enqueue_many([{}] * 30)

    app.drain()

    assert len(server.calls) == 60
    assert most_within(server.calls, 1.0) <= 42


def test_a_kind_keeps_the_lowest_of_its_limits(app, server):
    app.downstream("slow", concurrency=1)
    app.downstream("fast", concurrency=50)

    @app.task(downstream=["slow", "fast"], concurrency=10, total_concurrency=20)
    def look() -> None:
        server.call()

    look.enqueue_many([{}] * 10)

    app.drain()

    assert (len(server.calls), server.peak) == (10, 1)


def test_a_paused_downstream_holds_back_all_its_kinds(app, server):
    look, book = declare(app, server)
    look.enqueue()
    book.enqueue()

    app.pause("inventory", reason="moving house", who="ann")
    app.drain()
    assert server.calls == []
    assert why(app) == "downstream inventory: paused by ann 1.0s ago: moving house"

    app.resume("inventory")
    app.drain()
    assert len(server.calls) == 2


def test_a_closed_window_holds_back_all_its_kinds(app, clock, server):
    look, _ = declare(app, server, window="01:00-02:00")
    look.enqueue()
    is_open = app.registry.downstreams["inventory"].window.is_open(clock.now())

    app.drain()

    assert len(server.calls) == int(is_open)
    assert (why(app) or "").startswith("downstream inventory: window closed") is not is_open


def test_limits_are_set_while_it_runs(app, server):
    look, _ = declare(app, server)
    look.enqueue_many([{}] * 12)

    app.set("inventory", concurrency=1)
    app.drain()

    assert (len(server.calls), server.peak) == (12, 1)
    assert switch_of(app, "inventory")["concurrency"] == 1


def test_a_state_row_lowers_the_limits(app, server):
    look, _ = declare(app, server, concurrency=10)
    look.enqueue_many([{}] * 12)
    sql(app, "insert into windlass_limit (name, concurrency_now) values ('inventory', 1)")

    app.drain()

    assert (len(server.calls), server.peak) == (12, 1)


def by_hand(app):
    """A worker that is moved by hand, with two async kinds of a downstream with a breaker."""
    app.downstream("inventory", breaker="4 in a row, 1m")
    kinds = []
    for name in ("look", "book"):

        @app.task(name=name, downstream="inventory")
        async def step() -> None: ...

        kinds.append(step)
    return kinds, begin(app)


def test_errors_of_all_its_kinds_open_the_breaker(app):
    (look, book), worker = by_hand(app)
    look.enqueue_many([{}] * 2)
    book.enqueue_many([{}] * 2)
    worker.fetcher.tick()

    for _ in range(4):
        end_next(worker, Failed("no", "no"))
    worker.finish.flush()

    assert switch_of(app, "inventory")["breaker"] == BreakerState.OPEN
    assert why(app).startswith("downstream inventory: breaker open after 4 errors in a row")
    assert worker.gate.is_held("look")
    assert worker.gate.is_held("book")


def test_nothing_starts_after_enough_errors_before_they_are_written(app):
    (look, book), worker = by_hand(app)
    look.enqueue_many([{}] * 10)
    book.enqueue_many([{}] * 10)
    worker.fetcher.tick()

    for _ in range(4):
        end_next(worker, Failed("no", "no"))

    assert worker.in_flight.advance(None, None, is_async=True) is None
    assert switch_of(app, "inventory") is None


def test_a_success_of_another_worker_keeps_the_breaker_closed_and_runs_start_again(app):
    (look, _), worker = by_hand(app)
    look.enqueue_many([{}] * 10)
    worker.fetcher.tick()
    for _ in range(2):
        end_next(worker, Failed("no", "no"))
    worker.finish.flush()
    sql(app, "update windlass_switch set errors_in_a_row = 0")

    for _ in range(2):
        end_next(worker, Failed("no", "no"))
    assert worker.in_flight.advance(None, None, is_async=True) is None
    worker.finish.flush()

    assert worker.in_flight.advance(None, None, is_async=True) is not None


def test_one_probe_is_for_all_kinds_of_the_fleet(app, clock):
    (look, book), worker = by_hand(app)
    look.enqueue_many([{}] * 4)
    worker.fetcher.tick()
    for _ in range(4):
        end_next(worker, Failed("no", "no"))
    worker.finish.flush()
    look.enqueue_many([{}] * 3)
    book.enqueue_many([{}] * 3)
    clock.forward("1m")

    worker.fetcher.look_now()
    worker.fetcher.tick()
    assert len(worker.in_flight.queues) == 1
    end_next(worker, Succeeded())
    worker.finish.flush()

    assert switch_of(app, "inventory")["breaker"] == BreakerState.CLOSED


@pytest.mark.mostly("sqlite")
def test_fast_failures_let_few_runs_through(app, server):
    server.is_down = True
    inventory = app.downstream("inventory", breaker="5 in a row, 1h")

    @app.task(downstream=inventory, concurrency=1)
    async def look() -> None:
        server.call()

    look.enqueue_many([{}] * 300)

    app.drain()

    assert len(server.calls) == 5


@pytest.mark.mostly("sqlite")
def test_fast_failures_of_a_kind_let_few_runs_through(app, server):
    server.is_down = True

    @app.task(breaker="5 in a row, 1h", concurrency=1)
    async def look() -> None:
        server.call()

    look.enqueue_many([{}] * 300)

    app.drain()

    assert len(server.calls) == 5


def test_a_visit_that_the_caller_runs_keeps_the_limits(app, server):
    inventory = app.downstream("inventory", concurrency=1)

    @app.rolling(every="1d", downstream=inventory)
    def level(code: str) -> None:
        server.call()

    level.add(["bolt", "nut", "cog"])
    visits = [
        threading.Thread(target=level.visit, args=(code,), kwargs={"timeout": "20s"})
        for code in ("bolt", "nut", "cog")
    ]

    for visit in visits:
        visit.start()
    for visit in visits:
        visit.join()

    assert (len(server.calls), server.peak) == (3, 1)


def test_a_visit_of_a_paused_downstream_is_refused(app, server):
    inventory = app.downstream("inventory")

    @app.rolling(every="1d", downstream=inventory)
    def level(code: str) -> None:
        server.call()

    level.add(["bolt"])
    app.pause("inventory", reason="stocktaking")

    with pytest.raises(HeldBack, match="downstream inventory: paused"):
        level.visit("bolt")
    assert server.calls == []


BAD = [
    ({"rate": "0/s"}, BadRate, "too slow"),
    ({"rate": "fast"}, BadRate, "cannot read 'fast'"),
    ({"concurrency": 0}, BadDeclaration, "concurrency=0 is not a number from 1 on"),
    ({"concurrency": True}, BadDeclaration, "concurrency=True"),
    ({"breaker": "often"}, BadBreaker, "cannot read 'often'"),
    ({"window": "late"}, BadWindow, "late"),
    ({"adapt": "yes"}, BadDeclaration, "adapt='yes' is neither True nor False"),
    ({"name": " x"}, BadDeclaration, "a downstream cannot be named ' x'"),
]


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize(("options", "error", "text"), BAD)
def test_a_wrong_limit_is_refused(app, options, error, text):
    with pytest.raises(error, match=text):
        app.downstream(**{"name": "inventory", **options})


@pytest.mark.mostly("sqlite")
def test_an_unknown_downstream_is_refused_with_the_known_ones(app):
    app.downstream("inventory")

    with pytest.raises(BadDeclaration, match=r"'inventry' is not a downstream.*known: inventory"):

        @app.task(downstream="inventry")
        def look() -> None: ...


@pytest.mark.mostly("sqlite")
def test_a_downstream_of_another_app_is_refused(app, make_app, sqlite_url):
    theirs = make_app(sqlite_url).downstream("inventory")
    app.downstream("inventory")

    with pytest.raises(BadDeclaration, match="is not a downstream of this app"):

        @app.task(downstream=theirs)
        def look() -> None: ...


@pytest.mark.mostly("sqlite")
def test_a_name_is_for_one_downstream_or_kind(app):
    app.downstream("inventory")
    app.task(name="look")(lambda: None)

    with pytest.raises(BadDeclaration, match="a downstream has this name already"):
        app.downstream("inventory")
    with pytest.raises(BadDeclaration, match="a kind has this name already"):
        app.downstream("look")
    with pytest.raises(BadDeclaration, match="a downstream has this name"):
        app.task(name="inventory")(lambda: None)


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize(
    ("given", "text"),
    [
        (7, "downstream=7 is not a downstream"),
        (["inventory", "inventory"], "names one of them twice"),
        ([f"d{number}" for number in range(9)], "9 downstreams are too many; give at most 8"),
    ],
)
def test_a_wrong_list_of_downstreams_is_refused(app, given, text):
    app.downstream("inventory")

    with pytest.raises(BadDeclaration, match=text):

        @app.task(downstream=given)
        def look() -> None: ...


@pytest.mark.mostly("sqlite")
def test_total_concurrency_zero_is_refused(app):
    with pytest.raises(BadDeclaration, match="total_concurrency=0 is not a number from 1 on"):

        @app.task(total_concurrency=0)
        def look() -> None: ...


@pytest.mark.mostly("sqlite")
def test_an_unknown_name_is_not_paused(app):
    app.downstream("inventory")

    with pytest.raises(UnknownKind, match="declared: inventory"):
        app.pause("inventry")
