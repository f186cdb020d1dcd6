"""What a process counts for metrics, and what the database says."""

import asyncio
import math
import subprocess
import sys
import threading
from collections import Counter
from contextlib import closing

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from sqlalchemy import event

from tests.watch.metric.metered import Scrape
from windlass import App, Keys, Overloaded, Retry, Snooze, __version__, metrics
from windlass.cli.supervise import Supervisor
from windlass.ledger import Ledger, OutOfStock
from windlass.ledger.engine import tally
from windlass.telemetry import LOG_ONLY, WORDS
from windlass.value.metric import Pulse, Report
from windlass.watch.metric.database import DatabaseMetrics
from windlass.watch.metric.exposition import expose
from windlass.watch.metric.process import lasting, measure, samples, together
from windlass.watch.metric.table import METRICS, MOST_KINDS


def scrape(app):
    """What this process did for the app."""
    return Scrape(expose(samples(app.registry)).text)


def look(app):
    """What the database says now."""
    return Scrape(expose(DatabaseMetrics(app).samples()).text)


@pytest.fixture
def statements(app):
    """The statements that the app sends, as they come."""
    sent = []

    def note(_connection, _cursor, statement, *_rest):
        sent.append(statement)

    engines = app.database.engines
    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    yield sent
    for engine in engines:
        event.remove(engine, "before_cursor_execute", note)


@pytest.fixture
def shop(app):
    measure(app.registry)

    @app.task
    async def mail(to: str) -> None: ...

    @app.task(retries=2, backoff="1ms")
    def pay(order: int) -> None:
        raise ValueError(order)

    @app.task
    async def put_off() -> None:
        raise Snooze("1h")

    app.mail, app.pay, app.put_off = mail, pay, put_off
    return app


@pytest.mark.everywhere
def test_counters_and_histograms_say_what_was_run(shop, clock):
    shop.mail.enqueue_many([{"to": f"{number}@b.c"} for number in range(300)])
    shop.pay.enqueue_many([{"order": number} for number in range(7)])
    for _ in range(3):
        shop.drain()
        clock.forward("1s")

    found = scrape(shop)

    assert found("task_enqueued_total", kind="mail") == 300
    assert found("task_started_total", kind="mail") == 300
    assert found("task_done_total", kind="mail") == 300
    assert found("task_failed_total", kind="mail") == 0
    assert found("task_started_total", kind="pay") == 21
    assert found("task_retried_total", kind="pay") == 14
    assert found("task_failed_total", kind="pay") == 7
    assert found("task_done_total", kind="pay") == 0
    for what in ("duration", "wait"):
        assert found(f"task_{what}_seconds_count", kind="mail") == 300
        assert found(f"task_{what}_seconds_bucket", kind="mail", le="+Inf") == 300
        assert found(f"task_{what}_seconds_count", kind="pay") == 21
    assert found("commit_rows_total") == 321
    assert found("commit_seconds_count") >= 3
    assert found("claim_seconds_count") >= 3
    assert found("claim_rows_total", way="read") == 321


def test_the_wait_of_a_task_is_from_its_due_time_to_its_start(shop, clock):
    shop.mail.enqueue("a@b.c")
    clock.forward("30s")
    shop.drain()

    found = scrape(shop)

    # The clock stands still while it runs.
    assert math.isclose(found("task_wait_seconds_sum", kind="mail"), 30, abs_tol=1)
    assert found("task_wait_seconds_bucket", kind="mail", le="10") == 0
    assert found("task_wait_seconds_bucket", kind="mail", le="60") == 1


def test_the_duration_of_a_run_is_that_of_its_handler(app):
    measure(app.registry)
    began = threading.Event()

    @app.task
    def wait() -> None:
        # Nothing sets it: a wait for a tenth of a second.
        began.wait(0.1)

    wait.enqueue_many([{}] * 3)
    app.drain()

    found = scrape(app)
    assert found("task_duration_seconds_sum", kind="wait") >= 0.3
    assert found("task_duration_seconds_bucket", kind="wait", le="0.05") == 0
    assert found("task_duration_seconds_count", kind="wait") == 3


def test_a_snoozed_task_is_neither_done_nor_failed(shop):
    shop.put_off.enqueue()
    shop.drain()

    found = scrape(shop)

    assert found("task_started_total", kind="put_off") == 1
    assert found("task_done_total", kind="put_off") in (None, 0)
    assert found("task_duration_seconds_count", kind="put_off") in (None, 0)


def test_a_handler_that_asks_for_a_retry_counts_as_retried(app):
    measure(app.registry)

    @app.task(retries=3)
    def later() -> None:
        raise Retry(after="1h")

    later.enqueue()
    app.drain()

    assert scrape(app)("task_retried_total", kind="later") == 1


def test_a_key_that_is_taken_is_not_enqueued_again(shop):
    for _ in range(3):
        shop.mail.using(key="order-7", on_conflict="skip").enqueue("a@b.c")
    shop.mail.using(key="order-8").enqueue("a@b.c")

    assert scrape(shop)("task_enqueued_total", kind="mail") == 2


def test_a_task_in_the_callers_transaction_is_enqueued(shop):
    with shop.database.engine.begin() as connection:
        shop.mail.using(conn=connection).enqueue("a@b.c")

    assert scrape(shop)("task_enqueued_total", kind="mail") == 1


def test_a_flow_run_is_enqueued_and_its_nodes_run(shop):
    @shop.flow
    def order(flow) -> None:
        first = flow.add(shop.mail, "a@b.c")
        flow.add(shop.mail, "d@e.f", after=[first])

    order.start()
    shop.drain()

    found = scrape(shop)
    assert found("task_enqueued_total", kind="order") == 1
    assert found("task_done_total", kind="mail") == 2


def test_items_of_sweeps_are_counted(app):
    measure(app.registry)

    @app.sweep(Keys(1, 50), ranges=2)
    def offer(key: int) -> None:
        if key == 7:
            raise ValueError("seven is not for sale")

    app.drain()

    found = scrape(app)
    assert found("task_done_total", kind="offer") == 49
    assert found("task_failed_total", kind="offer") == 1
    assert found("task_duration_seconds_count", kind="offer") == 50
    assert found("task_wait_seconds_count", kind="offer") == 0


def test_every_event_is_there_before_it_happens(shop, events):
    before = scrape(shop)
    shop.pay.enqueue(7)
    shop.drain()
    after = scrape(shop)

    happened = Counter(name for name, _ in events)
    assert happened["task.retried"] == 1
    for name in WORDS.keys() - LOG_ONLY:
        counted = after("event_total", event=name) - before("event_total", event=name)
        assert counted == happened[name], name


def test_a_worker_that_was_made_before_counts_nothing(app):
    @app.task
    async def mail() -> None: ...

    mail.enqueue()
    worker = app.worker(until_idle=True)
    measure(app.registry)
    asyncio.run(worker.run())

    assert scrape(app).kinds("task_started_total") == set()


def test_without_a_meter_nothing_is_counted(app):
    @app.task
    async def mail() -> None: ...

    mail.enqueue()
    app.drain()

    assert app.registry.meter is None


@pytest.mark.mostly("sqlite")
def test_kinds_beyond_the_bound_are_together_under_one_name(app):
    measure(app.registry)
    for number in range(MOST_KINDS + 20):

        @app.task(name=f"kind-{number}")
        async def one() -> None: ...

        one.enqueue()
    app.drain()

    found, said = scrape(app), look(app)

    done = {kind: found("task_done_total", kind=kind) for kind in found.kinds("task_done_total")}
    assert len(done) <= MOST_KINDS + 1
    assert done["other"] >= 20
    assert sum(done.values()) == MOST_KINDS + 20
    assert len(said.kinds("breaker_state")) <= MOST_KINDS + 1
    assert len(said.kinds("task_due")) <= MOST_KINDS + 1


def test_a_forked_child_begins_at_zero(shop):
    shop.mail.enqueue("a@b.c")

    shop.registry.meter.after_fork()

    assert scrape(shop)("task_enqueued_total", kind="mail") == 0


def test_processes_add_up_and_what_has_died_still_counts(shop):
    shop.mail.enqueue("a@b.c")
    shop.drain()
    one = samples(shop.registry)

    both = Scrape(expose(together([lasting(one), one])).text)

    assert both("task_done_total", kind="mail") == 2
    assert both("task_wait_seconds_count", kind="mail") == 2
    assert both("info", version=__version__) == 1
    assert "gauge" not in {METRICS[sample.name].type for sample in lasting(one)}


def test_ledger_movements_count_once(database_url):
    before = Counter(tally.movements)
    with Ledger(database_url) as ledger:
        ledger.restock("delivery-1", {"bolt": 10, "nut": 10})
        ledger.deduct("order-7", {"bolt": 5, "nut": 5})
        ledger.deduct("order-7", {"bolt": 5, "nut": 5})
        ledger.give_back("order-7", "return-1", {"bolt": 1})
        with pytest.raises(OutOfStock):
            ledger.deduct("order-8", {"bolt": 50})

    made = Counter(tally.movements) - before
    assert made == {"restock": 1, "deduct": 1, "return": 1}


def test_users_register_windlass_in_their_own_registry(app):
    @app.task
    async def mail() -> None: ...

    registry = CollectorRegistry()
    collector = metrics.register(app, registry, database=True)
    mail.enqueue()

    found = Scrape(generate_latest(registry).decode())
    registry.unregister(collector)

    assert found("task_enqueued_total", kind="mail") == 1
    assert found("task_due", kind="mail", shard="1") == 1
    assert generate_latest(registry) == b""


def test_metrics_of_users_survive_a_database_without_tables(empty_database_url):
    with closing(App(empty_database_url)) as app:
        registry = CollectorRegistry()
        metrics.register(app, registry, database=True)

        found = Scrape(generate_latest(registry).decode())

    assert found("info", version=__version__) == 1


async def test_two_workers_of_one_process_are_one_figure(app):
    @app.task
    async def mail() -> None: ...

    measure(app.registry)
    workers = [app.worker(concurrency=10) for _ in range(2)]
    running = [asyncio.create_task(worker.run()) for worker in workers]
    try:

        def both_work():
            found = scrape(app)
            return found("worker_buckets", shard="1") == 256 and found("worker_concurrency") == 10

        while not both_work():
            await asyncio.sleep(0.01)
    finally:
        for worker in workers:
            worker.stop()
        await asyncio.gather(*running)


def test_what_a_dead_process_says_late_is_not_counted_twice(shop):
    shop.mail.enqueue("a@b.c")
    shop.drain()
    report = Report(Pulse(0, 0, 1, 0, 0), None, samples=samples(shop.registry))
    supervisor = Supervisor([], processes=1)
    (child,) = supervisor._children

    def done():
        return Scrape(expose(supervisor.samples()).text)("task_done_total", kind="mail")

    child.process = said = saying(report)
    child._read(said.stdout)
    assert done() == 1
    said.wait()
    child.schedule_restart(is_expected=False)
    assert done() == 1
    child._read(saying(report).stdout)
    assert done() == 1


def saying(report):
    """A process that reports this, and ends."""
    line = msgspec.json.encode(report).decode()
    code = f"print({line!r})"
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)


# What the database says.


@pytest.mark.everywhere
def test_due_rows_and_the_age_of_the_oldest(shop, clock):
    shop.mail.enqueue_many([{"to": "a@b.c"}] * 12)
    shop.mail.using(priority=5).enqueue("a@b.c")
    shop.mail.using(delay="1h").enqueue("a@b.c")
    clock.forward("90s")

    found = look(shop)

    assert found("shard_up", shard="1") == 1
    assert found("task_due", kind="mail", shard="1") == 13
    assert math.isclose(found("task_oldest_due_age_seconds", kind="mail", shard="1"), 90, abs_tol=1)
    assert found("task_due", kind="pay", shard="1") == 0
    assert found("task_oldest_due_age_seconds", kind="pay", shard="1") == 0
    assert found("worker_alive", shard="1") == 0
    assert found("bucket_unowned", shard="1") == 256


def test_rows_of_a_kind_that_no_app_declares_are_due_as_other(app, other):
    @other.task
    async def elsewhere() -> None: ...

    elsewhere.enqueue()

    assert look(app)("task_due", kind="other", shard="1") == 1


@pytest.mark.everywhere
def test_states_of_promises(app, clock):
    @app.rolling(every="1h")
    def stock(code: str) -> None: ...

    @app.task(within="10m")
    def mail(number: int) -> None: ...

    @app.task(within="10m")
    def idle() -> None: ...

    stock.add(["bolt"])
    app.drain()
    mail.enqueue(1)
    clock.advance(11 * 60 * 1_000_000)

    found = look(app)

    # No worker is left to visit it again.
    assert found("promise_state", kind="stock") == 1
    assert found("promise_state", kind="mail") == 2
    assert found("promise_state", kind="idle") == 0


@pytest.mark.everywhere
def test_limits_of_downstreams_and_how_often_they_were_overloaded(app):
    measure(app.registry)
    inventory = app.downstream("inventory", rate="700/s", concurrency=50)
    app.downstream("mail", window="08:00-18:00")

    @app.task(downstream=inventory)
    def book(code: str) -> None:
        raise Overloaded("busy", retry_after="1h")

    book.enqueue_many([{"code": code} for code in ("bolt", "nut", "gear")])
    app.drain()
    app.set("inventory", rate="300/s", concurrency=20)
    app.pause("inventory")

    found, counted = look(app), scrape(app)

    assert found("downstream_rate", downstream="inventory") == 300
    assert found("downstream_concurrency", downstream="inventory") == 20
    assert found("downstream_in_use", downstream="inventory") == 0
    assert found("downstream_held_back", downstream="inventory") == 1
    assert found("downstream_rate", downstream="mail") is None
    assert counted("downstream_overloaded_total", downstream="inventory") == 3
    assert counted("downstream_overloaded_total", downstream="mail") == 0


@pytest.mark.everywhere
def test_states_of_breakers_switches_and_windows(app):
    @app.task(retries=0, breaker="2 in a row, 5m")
    def pay() -> None:
        raise ValueError("refused")

    @app.task(window="01:00-07:00")
    async def nightly() -> None: ...

    @app.task
    async def mail() -> None: ...

    pay.enqueue_many([{}] * 2)
    app.drain()
    app.pause("mail")

    found = look(app)

    assert found("breaker_state", kind="pay", shard="1") == 1
    assert found("breaker_state", kind="mail", shard="1") == 0
    assert found("switch_off", kind="mail", shard="1") == 1
    assert found("switch_off", kind="pay", shard="1") == 0
    assert found("window_closed", kind="nightly", shard="1") == 1
    assert found("window_closed", kind="mail", shard="1") == 0
    assert found("alert_open", severity="warning", shard="1") == 1
    assert found("alert_open", severity="critical", shard="1") == 0


@pytest.mark.everywhere
def test_rolling_kinds_and_sweeps(app, clock):
    @app.rolling(every="10d")
    def stock(code: str) -> None: ...

    @app.sweep(Keys(1, 50), ranges=2)
    def offer(key: int) -> None:
        if key == 7:
            raise ValueError("seven is not for sale")

    stock.add([f"code-{number}" for number in range(20)], now=True)
    app.drain()
    stock.add(["new"])
    clock.forward("1h")

    found = look(app)

    assert found("rolling_items", kind="stock") == 21
    assert found("rolling_never_visited", kind="stock") == 1
    assert found("rolling_overdue", kind="stock") == 0
    assert math.isclose(found("rolling_oldest_age_seconds", kind="stock"), 3600, abs_tol=1)
    assert found("rolling_period_seconds", kind="stock") == 864_000
    assert found("sweep_round", kind="offer") == 1
    assert found("sweep_running", kind="offer") == 0
    assert (found("sweep_done", kind="offer"), found("sweep_failed", kind="offer")) == (49, 1)
    assert found("sweep_progress_ratio", kind="offer") == 1


def test_a_hasty_scraper_costs_the_database_nothing(shop, statements):
    page = DatabaseMetrics(shop)
    first = page.samples()
    statements.clear()

    again = [page.samples() for _ in range(20)]

    assert again == [first] * 20
    assert statements == []


def test_a_scrape_makes_the_same_statements_for_many_rows_as_for_few(shop, statements):
    shop.mail.enqueue("a@b.c")
    DatabaseMetrics(shop).samples()
    statements.clear()
    DatabaseMetrics(shop).samples()
    few = len(statements)

    shop.mail.enqueue_many([{"to": "a@b.c"}] * 3_000)
    statements.clear()
    DatabaseMetrics(shop).samples()

    assert few <= 25
    assert len(statements) == few


@pytest.mark.mostly("sqlite")
def test_a_database_that_does_not_answer_is_down(tmp_path):
    app = App(f"sqlite:///{tmp_path}/missing/shop.db")

    assert look(app)("shard_up", shard="1") == 0


def test_each_shard_has_its_own_figures(sharded):
    @sharded.task
    async def mail() -> None: ...

    for _ in range(30):
        mail.enqueue()

    found = look(sharded)

    shards = [str(shard.index) for shard in sharded.fleet.shards]
    assert [found("shard_up", shard=shard) for shard in shards] == [1.0] * len(shards)
    assert sum(found("task_due", kind="mail", shard=shard) for shard in shards) == 30
