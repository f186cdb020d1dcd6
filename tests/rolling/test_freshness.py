"""Freshness: every field on small sets, every forecast, and what looking at large ones costs."""

import json
from datetime import timedelta

import pytest
from sqlalchemy import delete, text

from tests.core.fetch.dead import Doomed
from tests.core.fetch.manual_worker import Hand
from tests.core.fetch.store.test_plan import PROBLEMS
from tests.database import plan as plans
from tests.database.plan import MYSQL_AND_MARIADB, SERIES, analyze, explain, statements
from tests.rolling.stock import at, declare
from tests.table import count, tasks
from windlass import Snooze
from windlass.clock import SECOND
from windlass.database.dialect.base import Count
from windlass.database.schema import stat
from windlass.rolling.store import item as rolling

MOMENT = timedelta(seconds=1)
MINUTE = 60 * SECOND

# Items that were visited once, at `seen`, and are due one a second from `due` on.
FILL = """
insert into windlass_task (id, kind, task_key, bucket, status, priority, due_at, attempt, lost,
                           created_at, finished_at, last_status, payload)
select {first} + i, :kind, {key}, i % 256, 0, 0, :due + i * {second}, 0, 0, :seen, :seen, 2,
       {payload}
from {series} as series
"""


@pytest.fixture
def seen():
    return []


@pytest.fixture
def stock(app, seen):
    return declare(app, seen)


def test_an_empty_kind_has_nothing_to_visit(stock):
    found = stock.freshness()

    assert (found.total, found.never_visited, found.due, found.overdue) == (0, 0, 0, 0)
    assert (found.oldest_age, found.needed_rate, found.actual_rate) == (timedelta(0), 0.0, 0.0)
    assert found.forecast == "there is nothing to visit"
    assert (found.breaks_at, found.head_room) == (None, None)


def test_new_items_are_due_and_as_old_as_their_adding(stock, clock):
    stock.add(["a", "b"])
    clock.forward("1h")
    stock.add(["c"])

    found = stock.freshness()

    assert (found.total, found.never_visited, found.due, found.overdue) == (3, 3, 3, 0)
    assert timedelta(hours=1) <= found.oldest_age < timedelta(hours=1) + MOMENT
    assert found.needed_rate == pytest.approx(3 / 864_000)
    assert found.actual_rate == 0.0


def test_visited_items_are_as_old_as_their_last_visit(app, stock, clock):
    stock.add(["a"])
    app.drain()
    clock.forward("2d")
    stock.add(["b"])
    app.drain()
    clock.forward("1d")

    found = stock.freshness()

    assert (found.total, found.never_visited, found.due, found.overdue) == (2, 0, 0, 0)
    assert timedelta(days=3) <= found.oldest_age < timedelta(days=3) + MOMENT


def test_an_item_is_overdue_when_its_last_visit_is_a_period_old(app, stock, clock):
    stock.add(["a"])
    app.drain()

    clock.forward("9d23h59m")
    assert (stock.freshness().due, stock.freshness().overdue) == (0, 0)
    clock.forward("1m")
    assert (stock.freshness().due, stock.freshness().overdue) == (1, 1)
    app.drain()
    assert (stock.freshness().due, stock.freshness().overdue) == (0, 0)


def test_an_item_that_nobody_ever_visited_is_overdue_a_period_after_its_adding(stock, clock):
    stock.add(["a"])
    clock.forward("9d")
    stock.add(["b"])
    clock.forward("1d")

    found = stock.freshness()

    assert (found.never_visited, found.due, found.overdue) == (2, 2, 1)


def test_a_failed_visit_is_a_visit(app, clock):
    @app.rolling(every="10d", retry_after="1h")
    def stock(code: str) -> None:
        raise ValueError

    stock.add(["a"])
    app.drain()
    clock.forward("2h")

    found = stock.freshness()

    assert (found.never_visited, found.due, found.overdue) == (0, 1, 0)
    assert found.oldest_age < timedelta(hours=2) + MOMENT


def test_a_snoozed_visit_is_none(app, clock):
    @app.rolling(every="10d")
    def stock(code: str) -> None:
        raise Snooze("20d")

    stock.add(["a"])
    app.drain()
    clock.forward("11d")

    found = stock.freshness()

    assert (found.never_visited, found.due, found.overdue) == (1, 0, 1)
    assert found.actual_rate == 0.0


def test_removed_items_do_not_count_and_running_ones_do(app, stock):
    stock.add(["a", "b", "c", "d"])
    Doomed(app).take(limit=2)
    assert stock.freshness().total == 4

    stock.remove(["a", "c"])

    assert stock.freshness().total == 2
    assert stock.freshness().due == 1


def test_each_kind_is_looked_at_by_itself(app, stock, clock):
    other = app.rolling(every="1d", name="other")(lambda code: None)
    other.add(["a", "b"])
    clock.forward("2d")
    stock.add(["a"])

    found = stock.freshness()

    assert (found.total, found.due, found.overdue) == (1, 1, 0)
    assert other.freshness().overdue == 2


def test_the_actual_rate_is_that_of_the_last_minutes(app, stock, clock):
    stock.add(f"code-{number}" for number in range(30))
    app.drain()
    assert stock.freshness().actual_rate == pytest.approx(0.5, rel=0.01)

    clock.forward("5m")
    assert stock.freshness().actual_rate == pytest.approx(0.1, rel=0.01)
    clock.forward("10m")
    assert stock.freshness().actual_rate == 0.0


def test_failed_visits_count_in_the_actual_rate(app):
    @app.rolling(every="1d")
    def stock(code: str) -> None:
        raise ValueError

    stock.add(f"code-{number}" for number in range(6))
    app.drain()

    assert stock.freshness().actual_rate == pytest.approx(0.1, rel=0.01)


async def test_freshness_has_an_async_twin(stock):
    await stock.aadd(["a"])

    assert (await stock.afreshness()).total == 1


# A hundred items every hundred seconds: one a second is needed.
PROMISE = {"every": "100s", "concurrency": 2}


def visited(app, clock, **options):
    """A kind of a hundred items, all just visited, whose visits took 100 ms each."""
    stock = declare(app, [], **{**PROMISE, **options})
    now = clock.now()
    fill(app, "stock", 100, due=now + stock_period(app), seen=now)
    remember(app, clock, done=100, milliseconds=10_000)
    return stock


def stock_period(app):
    return app.registry.get("stock").period.every


def remember(app, clock, *, done, milliseconds):
    """Make this all that was done of `stock` lately."""
    work = Count(clock.now() // MINUTE, "stock", 1, done=done, milliseconds=milliseconds)

    def write(connection):
        connection.execute(delete(stat))
        app.database.dialect.count(connection, [work])

    app.database.write(write)


def test_the_promise_holds_with_the_head_room_of_its_workers(app, clock):
    stock = visited(app, clock)
    Hand(app)

    found = stock.freshness()

    assert found.needed_rate == pytest.approx(1.0)
    assert found.head_room == pytest.approx(20.0)
    assert found.forecast == "the 1m40s promise holds with 20 times head-room"
    assert found.breaks_at is None
    Hand(app)
    assert stock.freshness().head_room == pytest.approx(40.0)


@pytest.mark.parametrize(
    ("options", "head_room"),
    [({"rate": "5/s"}, 5.0), ({"rate": "50/s"}, 20.0), ({"window": "00:00-12:00"}, 10.0)],
)
def test_a_rate_and_a_window_limit_the_head_room(app, clock, options, head_room):
    stock = visited(app, clock, **options)
    Hand(app)

    assert stock.freshness().head_room == pytest.approx(head_room)


def test_what_an_operator_sets_limits_the_head_room(app, clock):
    stock = visited(app, clock)
    Hand(app)

    app.set("stock", rate="2/s")

    assert stock.freshness().head_room == pytest.approx(2.0)
    assert "holds with 2.0 times" in stock.freshness().forecast


def test_without_a_worker_the_promise_breaks_when_the_first_item_is_too_old(app, clock):
    stock = visited(app, clock, every="10d")

    found = stock.freshness()

    assert found.breaks_at - at(0, day=11) < MOMENT
    assert found.forecast == (
        "the 10-day promise breaks on Sunday 2026-01-11 00:00 UTC because no worker runs it"
    )


def test_a_worker_that_missed_its_heartbeat_does_not_count(app, clock):
    stock = visited(app, clock)
    Hand(app)
    clock.forward("30s")

    assert "because no worker runs it" in stock.freshness().forecast


def test_a_worker_for_other_kinds_is_none(app, clock):
    Hand(app)
    stock = visited(app, clock)

    assert "because no worker runs it" in stock.freshness().forecast


def test_a_paused_kind_breaks_its_promise_whoever_is_there(app, clock):
    stock = visited(app, clock, every="10d")
    Hand(app)
    app.pause("stock", reason="stocktaking")

    found = stock.freshness()

    assert found.breaks_at - at(0, day=11) < MOMENT
    assert found.forecast.endswith("because the kind is paused")
    app.resume("stock")
    assert "holds with" in stock.freshness().forecast


def test_a_backlog_that_takes_too_long_breaks_the_promise(app, clock):
    clock.forward("30s")
    stock = declare(app, [], every="1h")
    stock.add(f"code-{number}" for number in range(1_000))
    Hand(app)
    remember(app, clock, done=1, milliseconds=1)

    found = stock.freshness()

    assert abs(found.breaks_at - at(1) - timedelta(seconds=30)) < MOMENT
    assert found.forecast == "the 1h promise breaks on Thursday 2026-01-01 01:00 UTC at this rate"
    assert found.head_room is None


def test_items_that_fall_due_faster_than_they_are_visited_break_the_promise(app, clock):
    stock = visited(app, clock, concurrency=1)
    Hand(app)
    remember(app, clock, done=10, milliseconds=100_000)

    found = stock.freshness()

    assert found.forecast.startswith("the 1m40s promise breaks on Thursday 2026-01-01")
    assert found.forecast.endswith("at this rate")
    assert at(0) <= found.breaks_at < at(1)


@pytest.mark.parametrize(("late", "says"), [(1, "1 item is overdue"), (3, "3 items are overdue")])
def test_a_promise_is_broken_once_items_are_overdue_for_a_while(stock, clock, late, says):
    stock.add(f"code-{number}" for number in range(late))
    clock.forward("12d")
    stock.add(["new"])

    found = stock.freshness()

    assert (found.overdue, found.total) == (late, late + 1)
    assert found.forecast.startswith(f"the 10-day promise is broken: {says};")
    assert found.breaks_at - at(0, day=13) < MOMENT
    assert found.head_room is None


def test_an_item_that_has_just_fallen_due_breaks_no_promise(app, clock):
    stock = visited(app, clock)
    clock.forward("101s")
    Hand(app)
    remember(app, clock, done=1_000, milliseconds=1_000)

    found = stock.freshness()

    assert found.overdue == 100
    assert "broken" not in found.forecast


def test_of_an_unknown_speed_nothing_is_foretold(app, stock):
    stock.add(["a"])
    Hand(app)

    found = stock.freshness()

    assert "holds so far; the speed is not known yet" in found.forecast
    assert (found.breaks_at, found.head_room) == (None, None)


def test_counts_are_exact_below_ten_thousand(app, stock, clock):
    now = clock.now()
    fill(app, "stock", 9_000, due=now - 100 * SECOND, seen=now - MINUTE)
    stock.add(f"new-{number}" for number in range(999))

    found = stock.freshness()

    assert (found.total, found.never_visited, found.overdue) == (9_999, 999, 0)
    assert found.due == 100 + 999


def test_a_large_total_is_the_sum_of_what_was_added_and_removed(app, stock):
    stock.add(f"code-{number}" for number in range(12_500))
    stock.remove(f"code-{number}" for number in range(1_000))
    stock.add(f"code-{number}" for number in range(500))
    Doomed(app).take()
    stock.remove([tasks(app, status=1)[0]["task_key"]])

    found = stock.freshness()

    assert found.total == 11_999
    assert (found.never_visited, found.due) == (11_999, 11_999)
    app.database.write(lambda connection: rolling.add_up(connection, limit=10_000))
    assert stock.freshness().total == 11_999


@pytest.mark.parametrize("are_due", [False, True])
def test_looking_at_three_times_as_many_items_reads_no_more_rows(
    app, stock, clock, database_engine, are_due
):
    now = clock.now()
    due = now - 50_000 * SECOND if are_due else now + MINUTE
    # Before them are rows of another kind: whoever reads the table itself reads those too.
    fill(app, "other", 20_000, due=now, seen=now)
    fill(app, "stock", 12_000, due=due, seen=now - MINUTE)
    few = look(app, stock, database_engine)
    fill(app, "stock", 24_000, due=due, seen=now - MINUTE)
    many = look(app, stock, database_engine)

    assert few.keys() == many.keys() != set()
    assert {key: many[key] for key in many if many[key] > few[key] * 1.1 + 100} == {}


def look(app, stock, engine):
    """How many rows each statement of a look at `stock` reads; none of them may read them all."""
    with app.database.engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(
            text(f"{analyze(engine)} windlass_task")
        )
    with statements(app) as caught:
        found = stock.freshness()
    assert found.total > 10_000
    # An estimate is a plan already. SQLite has none: it counts what is due, in the index.
    caught = [
        (statement, parameters)
        for statement, parameters in caught
        if not statement.strip().startswith("explain") and "indexed by" not in statement
    ]
    assert [problem for each in caught for problem in PROBLEMS[engine](app, each)] == []
    return {each[0]: rows_read(app, engine, each) for each in caught}


def fill(app, kind, number, *, due, seen):
    """Write items as `add` and a visit would."""
    app.prepare()
    engine = app.database.dialect.server
    key = (
        "concat('code-', {first} + i)"
        if engine in MYSQL_AND_MARIADB
        else "'code-' || ({first} + i)"
    )
    statement = FILL.replace("{key}", key).format(
        first=10_000_000 + count(app),
        second="cast(1000000 as bigint)" if engine == "postgresql" else "1000000",
        payload="cast('null' as json)" if engine == "postgresql" else "'null'",
        series=SERIES[engine].format(count=number),
    )

    def write(connection):
        connection.execute(text(statement), {"kind": kind, "due": due, "seen": seen})
        rolling.count(connection, kind, number)

    app.database.write(write)


def rows_read(app, engine, statement):
    """How much a statement reads, in a measure of the database's own."""
    if engine == "postgresql":
        ((plan,),) = explain(app, "explain (analyze, format json)", statement)
        return sum(touched((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]))
    with app.database.engine.connect() as connection:
        if engine == "sqlite":
            return steps(connection, statement)
        return plans.rows_read(connection, statement)


def touched(node):
    if node.get("Relation Name") == "windlass_task":
        yield node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
    for part in node.get("Plans", []):
        yield from touched(part)


def steps(connection, statement):
    """How many hundred steps SQLite's machine takes."""
    counted = []
    raw = connection.connection.driver_connection
    raw.set_progress_handler(lambda: counted.append(1) or 0, 100)
    connection.exec_driver_sql(*statement).fetchall()
    raw.set_progress_handler(None, 0)
    return len(counted)
