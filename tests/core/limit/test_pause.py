"""Pauses of kinds, groups and everything: each holds by itself, and some end by themselves."""

from contextlib import closing

import pytest

from tests.core.run.working import sql, switch_of, working
from tests.external.system import Spark
from tests.wait import eventually
from windlass import App, BadDeclaration, BadInput, HeldBack, Keys, SchemaMismatch, WindlassError
from windlass.clock import from_datetime, to_datetime
from windlass.errors import PastTime, Unknown
from windlass.operate.switch import operate
from windlass.watch.engine.deliver import DELIVER

pytestmark = pytest.mark.everywhere


@pytest.fixture
def seen():
    return []


@pytest.fixture
def shop(app, seen):
    """A kind of its own, and two in a group, each with a row that is due."""

    @app.task
    def mail() -> None:
        seen.append("mail")

    @app.task(group="sale")
    def price() -> None:
        seen.append("price")

    @app.task(group="sale")
    async def stock() -> None:
        seen.append("stock")

    for each in (mail, price, stock):
        each.enqueue()
    return app


def held(app, kind):
    return operate.show(app.fleet, app.registry, app.clock, kind=kind).held_back


def test_a_pause_of_everything_holds_all_kinds_until_it_is_resumed(shop, seen):
    shop.pause(reason="moving", who="ann")
    shop.drain()
    assert seen == []
    assert held(shop, "mail").startswith("everything paused by ann ")

    shop.resume()
    shop.drain()
    assert sorted(seen) == ["mail", "price", "stock"]


def test_a_pause_of_a_group_holds_its_kinds_and_no_others(shop, seen):
    shop.pause(group="sale", who="ann", reason="too cheap")
    shop.drain()
    assert seen == ["mail"]
    assert held(shop, "mail") is None
    assert held(shop, "stock").startswith("group sale paused by ann ")
    assert held(shop, "stock").endswith(" ago: too cheap")

    shop.resume(group="sale")
    shop.drain()
    assert sorted(seen) == ["mail", "price", "stock"]


def test_each_pause_ends_by_itself_alone(shop, seen):
    shop.pause()
    shop.pause(group="sale")
    shop.pause("price")

    shop.resume()
    shop.drain()
    assert seen == ["mail"]

    shop.resume(group="sale")
    shop.drain()
    assert seen == ["mail", "stock"]

    shop.resume("price")
    shop.drain()
    assert seen == ["mail", "stock", "price"]


def test_what_holds_a_kind_is_told_for_each_pause(shop, clock):
    shop.pause(who="ann", until="2h")
    shop.pause(group="sale", who="ben")
    shop.pause("price", who="eve", reason="wrong")

    told = held(shop, "price").split("; ")

    assert [each.partition(" by ")[0] for each in told] == [
        "paused",
        "group sale paused",
        "everything paused",
    ]
    assert "until 02:00" in told[2]


def test_a_pause_ends_by_itself_when_the_clock_reaches_its_end(shop, seen, clock):
    shop.pause("mail", until="06:00", who="ann", reason="sale")
    shop.pause(group="sale", until="1h")
    shop.drain()
    assert seen == []
    assert held(shop, "mail") == "paused by ann until 06:00 UTC: sale"

    clock.forward("1h")
    shop.drain()
    assert sorted(seen) == ["price", "stock"]

    clock.forward("5h")
    shop.drain()
    assert sorted(seen) == ["mail", "price", "stock"]
    assert held(shop, "mail") is None


def test_a_running_worker_goes_on_by_itself_at_the_end_of_a_pause(shop, seen, clock):
    shop.pause(until="30m")

    with working(shop) as worker:
        worker.switchboard.obey()
        assert seen == []
        clock.forward("30m")
        eventually(lambda: len(seen) == 3, what="what waited for the end of the pause")


def test_a_pause_that_is_repeated_without_an_end_has_none(shop, clock):
    shop.pause("mail", until="1h")
    shop.pause("mail", reason="longer")

    clock.forward("2h")

    assert held(shop, "mail").endswith(": longer")
    assert switch_of(shop, "mail")["paused_until"] is None


def test_plain_sql_pauses_a_group_and_everything(shop, seen):
    shop.prepare()
    sql(shop, "insert into windlass_switch (kind, off) values ('group:sale', 1)")
    shop.drain()
    assert seen == ["mail"]

    sql(shop, "update windlass_switch set kind = '*' where kind = 'group:sale'")
    assert held(shop, "mail") == "everything paused"
    sql(shop, "update windlass_switch set off = 0")
    shop.drain()
    assert sorted(seen) == ["mail", "price", "stock"]


def test_crons_rolling_items_and_sweeps_wait_too(app, seen, clock):
    @app.cron("0 * * * *", group="night")
    def report() -> None:
        seen.append("report")

    @app.rolling(every="1d", group="night")
    def visit(code: str) -> None:
        seen.append(code)

    @app.sweep(Keys(1, 3), ranges=1, group="night")
    def walk(key: int) -> None:
        seen.append(key)

    app.pause(group="night")
    app.drain()
    visit.add(["a"], now=True)
    clock.forward("90m")
    app.drain()
    assert seen == []
    with pytest.raises(HeldBack, match="group night paused"):
        visit.visit("a", timeout="1s")
    with pytest.raises(HeldBack, match="group night paused"):
        walk.visit(2)

    app.resume(group="night")
    app.drain()
    assert set(seen) == {"report", "a", 1, 2, 3}


def test_what_was_submitted_elsewhere_is_polled_while_everything_is_paused(app, clock):
    system = Spark()
    spark = app.external("spark", system, every="5s", group="sale")
    spark.enqueue("load")
    app.drain()
    app.pause()
    app.pause(group="sale")
    waiting = spark.enqueue("later")

    clock.forward("6s")
    app.drain()
    assert len(system.asked) == 1
    assert waiting.status().name == "WAITING"

    app.pause("spark")
    clock.forward("6s")
    app.drain()
    assert len(system.asked) == 1


def test_alerts_are_delivered_while_everything_is_paused(app):
    app.pause(who="ann")

    found = app.database.read(lambda connection: operate.limit_store.switch_of(connection, DELIVER))

    assert found.pauses(app.clock.now()) == ()


def test_the_pauses_are_listed_everything_first(shop):
    shop.pause(group="sale", who="ann", reason="cheap", until="06:00")

    everything, sale = operate.pauses(shop.fleet, shop.registry, shop.clock)

    assert (everything.group, everything.off) == (None, False)
    assert everything.kinds == ["mail", "price", "stock"]
    assert (sale.group, sale.kinds, sale.off) == ("sale", ["price", "stock"], True)
    assert (sale.who, sale.reason) == ("ann", "cheap")
    assert f"{to_datetime(sale.until):%H:%M}" == "06:00"


def test_a_group_that_no_kind_is_in_any_more_can_be_resumed(shop, database_url, clock):
    shop.pause(group="sale")

    with closing(App(database_url, clock=clock)) as later:
        assert [each.name for each in operate.pauses(later.fleet, later.registry, clock)] == [
            "*",
            "group:sale",
        ]
        later.resume(group="sale")
        with pytest.raises(Unknown):
            later.pause(group="sale")

    assert switch_of(shop, "group:sale")["off"] == 0


# Bad input


@pytest.mark.mostly("sqlite")
def test_a_group_that_is_not_known_is_named_with_the_known_ones(shop):
    with pytest.raises(Unknown, match=r"group 'sal' is not known; groups: sale$"):
        shop.pause(group="sal")
    with pytest.raises(Unknown, match=r"group 'sal' is not known; groups: sale$"):
        shop.resume(group="sal")

    assert switch_of(shop, "group:sal") is None


@pytest.mark.mostly("sqlite")
def test_a_kind_and_a_group_together_are_refused(shop):
    with pytest.raises(BadInput, match="kind 'mail' and group 'sale' were given together"):
        shop.pause("mail", group="sale")

    assert switch_of(shop, "mail") is None


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize(
    ("until", "error", "text"),
    [
        ("2025-12-31 23:00", PastTime, "until='2025-12-31 23:00' has passed"),
        ("2026-02-30", BadInput, "until='2026-02-30' cannot be read; February 2026 has 28 days"),
        ("soon", BadInput, "until='soon' cannot be read; write it as"),
        ("0s", BadInput, "until: '0s' is too short"),
    ],
)
def test_an_end_that_cannot_be_is_refused_and_nothing_is_paused(shop, until, error, text):
    with pytest.raises(error) as raised:
        shop.pause("mail", until=until)

    assert text in str(raised.value)
    assert switch_of(shop, "mail") is None


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize("name", ["*", "group:sale", "windlass:mine"])
def test_no_kind_has_a_name_that_a_switch_of_many_has(app, name):
    with pytest.raises(BadDeclaration, match="are taken"):
        app.task(name=name)(lambda: None)


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize("group", ["", " sale", "x" * 95, 7, "a\nb"])
def test_a_group_that_cannot_be_named_so_is_refused(app, group):
    with pytest.raises(BadDeclaration, match="is not the name of a group"):
        app.task(name="mail", group=group)(lambda: None)


@pytest.mark.mostly("sqlite")
def test_before_the_migration_only_a_pause_with_an_end_is_refused(shop, seen, monkeypatch):
    shop.prepare()
    schema = shop.database.schema
    old = type(schema.tables)(known_from="0001", ended=("0001", "0006"), has_log=True)
    monkeypatch.setattr(schema, "tables", old)
    monkeypatch.setattr(schema, "look", lambda: old)

    with pytest.raises(SchemaMismatch, match="a pause with an end needs tables of version 0008"):
        shop.pause("mail", until="2h")
    shop.pause(group="sale")
    shop.drain()

    assert seen == ["mail"]


def test_until_may_be_a_datetime_or_a_timedelta(shop, clock):
    moment = to_datetime(clock.now())

    shop.pause("mail", until=moment.replace(hour=6))
    shop.pause("price", until=moment.replace(hour=6) - moment)

    assert switch_of(shop, "mail")["paused_until"] == from_datetime(moment.replace(hour=6))
    assert held(shop, "price").startswith("paused by ")
    with pytest.raises(WindlassError, match="has no time zone"):
        shop.pause("mail", until=moment.replace(tzinfo=None))
