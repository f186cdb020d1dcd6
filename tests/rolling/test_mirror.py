"""Mirroring: the items of a kind become the keys of a source, whatever happens meanwhile."""

import random
from contextlib import closing
from itertools import count as numbers

import pytest
from sqlalchemy import create_engine, text

from tests.core.fetch.dead import Doomed
from tests.rolling.stock import declare
from tests.table import count, tasks
from windlass import App, BadInput, BadSource, Mirror, Status, Table
from windlass.database.database import normalise
from windlass.rolling import engine
from windlass.rolling.operate import source as operate

ODD = ["a", "B", "A", "b", "ä", "ä", "a b", "a ", " a", "Z", "_", "10", "9", "ß", "漢", "🚢", "￮"]
EXACT = {
    "sqlite": "varchar(50)",
    "postgresql": "varchar(50)",
    "mariadb": "varchar(50) character set utf8mb4 collate utf8mb4_nopad_bin",
    "mysql": "varchar(50) character set utf8mb4 collate utf8mb4_0900_bin",
}


@pytest.fixture
def seen():
    return []


@pytest.fixture
def stock(app, seen):
    return declare(app, seen)


@pytest.fixture
def shop(tmp_path):
    with closing(Shop(f"sqlite:///{tmp_path / 'shop.db'}")) as shop:
        yield shop


class Shop:
    """Somebody else's database with a table of products."""

    def __init__(self, url):
        self.url = url
        self.source = Table(url, "product", key="code")
        self._engine = create_engine(normalise(url))

    def make(self, column="varchar(50)", *, codes=()):
        self.execute(f"create table product (code {column} primary key)")
        self.insert(codes)

    def insert(self, codes):
        rows = [{"code": code} for code in codes]
        if rows:
            with self._engine.begin() as connection:
                connection.execute(text("insert into product values (:code)"), rows)

    def delete(self, *codes):
        with self._engine.begin() as connection:
            for code in codes:
                connection.execute(text("delete from product where code = :code"), {"code": code})

    def execute(self, statement):
        with self._engine.begin() as connection:
            connection.exec_driver_sql(statement)

    def close(self):
        self.source.close()
        self._engine.dispose()


class Listed:
    """A source in memory, which comes in parts and lets something happen before each of them."""

    name = "a list"

    def __init__(self, keys, *, before_part=None, size=2):
        self.now = set(keys)
        self._before_part = before_part or (lambda number: None)
        self._size = size

    def check(self):
        pass

    def keys(self):
        snapshot = sorted(self.now)
        for number, begin in enumerate(range(0, len(snapshot), self._size)):
            self._before_part(number)
            yield snapshot[begin : begin + self._size]

    def present(self, keys):
        return self.now & set(keys)


@pytest.fixture
def small_parts(monkeypatch):
    """Few keys are many: pages of three, added by fours and removed by twos."""
    monkeypatch.setattr(operate, "PAGE", 3)
    monkeypatch.setattr(engine, "ADD_AT_ONCE", 4)
    monkeypatch.setattr(engine, "CHANGE_AT_ONCE", 2)


def items_of(app, kind="stock"):
    return {row["task_key"] for row in tasks(app, kind=kind)}


def test_the_first_call_imports_everything(app, stock, seen, shop):
    shop.make(codes=["a", "b", "c"])

    assert stock.mirror(shop.source) == Mirror(added=3, removed=0)

    assert items_of(app) == {"a", "b", "c"}
    assert stock.freshness().total == 3
    app.drain()
    assert sorted(seen) == ["a", "b", "c"]


def test_later_calls_add_what_is_new_and_remove_what_is_gone(app, stock, shop):
    shop.make(codes=["a", "b", "c"])
    stock.mirror(shop.source)
    app.drain()
    before = stock.item("b")

    shop.delete("a", "c")
    shop.insert(["d", "B"])

    assert stock.mirror(shop.source) == Mirror(added=2, removed=2)
    assert items_of(app) == {"b", "d", "B"}
    assert stock.item("b") == before
    assert stock.mirror(shop.source) == Mirror(added=0, removed=0)
    assert stock.freshness().total == 3


def test_a_dry_run_counts_and_changes_nothing(app, stock, shop):
    shop.make(codes=["a", "b", "c"])
    stock.add(["c", "x", "y"])
    before = tasks(app)

    foretold = stock.mirror(shop.source, dry_run=True)

    assert (foretold.added, foretold.removed, foretold.dry_run) == (2, 2, True)
    assert tasks(app) == before
    assert stock.freshness().total == 3
    done = stock.mirror(shop.source)
    assert (done.added, done.removed, done.dry_run) == (2, 2, False)


def test_a_source_may_be_in_the_same_database(app, stock, database_engine, database_url):
    with closing(Shop(database_url)) as shop:
        shop.make(EXACT[database_engine], codes=ODD)

        assert stock.mirror(shop.source) == Mirror(len(ODD), 0)

    assert items_of(app) == set(ODD)


def test_a_source_may_be_in_another_database(app, stock, database_engine, empty_database_url):
    stock.add(["a", "gone"])
    with closing(Shop(empty_database_url)) as shop:
        shop.make(EXACT[database_engine], codes=["a", "b"])

        assert stock.mirror(shop.source) == Mirror(1, 1)

    assert items_of(app) == {"a", "b"}


def test_a_source_may_be_in_a_database_of_another_kind(
    sqlite_url, clock, server_engine, server_url
):
    column = EXACT[server_engine]
    with closing(App(sqlite_url, clock=clock)) as app, closing(Shop(server_url)) as shop:
        stock = declare(app, [])
        stock.add(["a", "gone", "ä"])
        shop.make(column, codes=ODD)

        assert stock.mirror(shop.source) == Mirror(len(ODD) - 2, 1)
        assert items_of(app) == set(ODD)
        assert stock.mirror(shop.source) == Mirror(0, 0)


def test_keys_are_compared_byte_by_byte(app, stock, shop, small_parts):
    shop.make(codes=ODD)
    stock.add([*ODD[::2], "b ", "aa", "𐀀"])

    assert stock.mirror(shop.source) == Mirror(len(ODD[1::2]), 3)

    assert items_of(app) == set(ODD)
    assert stock.mirror(shop.source) == Mirror(0, 0)


def test_whole_numbers_are_keys_as_they_are_written(app, stock, shop):
    shop.make("integer", codes=range(-2, 25))
    stock.add(["9", "10", "007", "25"])

    assert stock.mirror(shop.source) == Mirror(25, 2)

    assert items_of(app) == {str(number) for number in range(-2, 25)}
    assert stock.mirror(shop.source) == Mirror(0, 0)


def test_an_empty_source_empties_the_kind_and_no_other(app, stock, shop):
    other = declare_other(app)
    shop.make()
    stock.add(["a", "b"])
    other.add(["a", "b"])

    assert stock.mirror(shop.source) == Mirror(0, 2)
    assert stock.mirror(shop.source) == Mirror(0, 0)

    assert items_of(app) == set()
    assert items_of(app, "other") == {"a", "b"}


def declare_other(app):
    return app.rolling(every="1d", name="other")(lambda code: None)


def test_one_call_makes_any_items_equal_to_any_keys(app, stock, small_parts):
    dice = random.Random(7)
    codes = [f"{number:x}" for number in range(40)]
    for _ in range(12):
        keys = dice.sample(codes, dice.randint(0, 40))
        before = items_of(app)

        foretold = stock.mirror(Listed(keys, size=dice.randint(1, 9)), dry_run=True)
        done = stock.mirror(Listed(keys, size=dice.randint(1, 9)))

        assert items_of(app) == set(keys)
        assert done == Mirror(len(set(keys) - before), len(before - set(keys)))
        assert (foretold.added, foretold.removed) == (done.added, done.removed)
        assert stock.freshness().total == len(keys)


def test_many_keys_are_mirrored(app, stock):
    keys = [f"code-{number:05}" for number in range(25_000)]

    assert stock.mirror(Listed(keys, size=10_000)) == Mirror(25_000, 0)
    assert count(app) == stock.freshness().total == 25_000
    assert stock.mirror(Listed([*keys[1::5], "new"], size=10_000)) == Mirror(1, 20_000)

    assert items_of(app) == {*keys[1::5], "new"}
    assert stock.freshness().total == 5_001


def test_a_source_that_breaks_in_the_middle_removes_nothing(app, stock, small_parts):
    def breaks(number):
        if number == 3:
            raise ConnectionError("the line went dead")

    keys = set("bdfhjlnprt")
    stock.add(keys | {"z"})
    before = items_of(app)

    with pytest.raises(ConnectionError):
        stock.mirror(Listed(keys, before_part=breaks))
    assert items_of(app) == before

    assert stock.mirror(Listed(keys)) == Mirror(0, 1)
    assert items_of(app) == keys


def test_what_a_broken_mirror_has_not_done_the_next_one_does(app, stock, small_parts):
    def breaks(number):
        if number == 4:
            raise ConnectionError("the line went dead")

    keys = set("abcdefghijklmnopqrst")
    stock.add(["c", "e", "s", "0", "1", "2", "3", "z"])

    with pytest.raises(ConnectionError):
        stock.mirror(Listed(keys, before_part=breaks))
    assert {"c", "e", "s", "z"} <= items_of(app)
    stock.mirror(Listed(keys))

    assert items_of(app) == keys
    assert stock.freshness().total == len(keys)


def test_a_source_that_ends_too_early_removes_nothing_that_it_still_has(app, stock):
    class Short(Listed):
        def keys(self):
            yield ["a", "b"]

    stock.add(["a", "b", "c", "d", "gone"])

    assert stock.mirror(Short(["a", "b", "c", "d"])) == Mirror(0, 1)
    assert items_of(app) == {"a", "b", "c", "d"}


def test_a_source_in_the_wrong_order_does_no_harm(app, stock, small_parts):
    class Mixed(Listed):
        def keys(self):
            yield ["d", "a", "c", "a", "b", "d"]

    stock.add(["a", "b", "c", "z"])

    stock.mirror(Mixed("abcd"))

    assert items_of(app) == set("abcd")


def test_what_comes_to_both_sides_meanwhile_stays(app, stock, small_parts):
    def come(number):
        if number == 2:
            source.now |= {"f", "z"}
            stock.add(["f", "z"])

    source = Listed("abcdeghi", before_part=come)
    stock.add(list("abcdeghi"))

    assert stock.mirror(source) == Mirror(0, 0)
    assert items_of(app) == set("abcdefghiz")


def test_what_goes_from_both_sides_meanwhile_does_not_come_back(app, stock, small_parts):
    def go(number):
        if number == 1:
            source.now -= {"g", "h"}
            stock.remove(["g", "h"])

    source = Listed("abcdefgh", before_part=go)
    stock.add(list("acegh"))

    stock.mirror(source)

    assert items_of(app) == set("abcdef")


def test_a_source_that_changes_meanwhile_is_equal_after_the_next_call(app, stock, small_parts):
    dice = random.Random(3)
    codes = [f"{number:02}" for number in range(30)]

    def change(number):
        source.now ^= set(dice.sample(codes, 3))

    source = Listed(codes[::2], before_part=change)
    stock.add(codes[5:20])
    for _ in range(5):
        stock.mirror(source)

        stock.mirror(settled := Listed(source.now))

        assert items_of(app) == settled.now
        assert stock.freshness().total == len(settled.now)


def test_a_table_that_changes_meanwhile_is_equal_after_the_next_call(app, stock, shop, small_parts):
    shop.make(codes=(f"{number:03}" for number in range(100)))
    stock.add(f"{number:03}" for number in range(50, 150))
    ticket = numbers()

    class Busy(Table):
        def present(self, keys):
            shop.insert([f"new-{next(ticket)}"])
            return super().present(keys)

    with closing(Busy(shop.url, "product", key="code")) as busy:
        stock.mirror(busy)
    stock.mirror(shop.source)

    assert len(items_of(app)) == 100 + next(ticket)
    assert stock.mirror(shop.source, dry_run=True) == Mirror(0, 0, dry_run=True)


def test_an_item_that_runs_when_it_is_gone_goes_at_its_end(app, stock, seen):
    stock.add(["a", "b"])
    doomed = Doomed(app)
    doomed.take(limit=2)

    assert stock.mirror(Listed(["a"])) == Mirror(0, 1)
    assert stock.mirror(Listed(["a"])) == Mirror(0, 0)
    assert stock.item("b") is None
    doomed.die()

    assert items_of(app) == {"a"}


def test_an_item_that_runs_when_it_is_back_stays(app, stock):
    stock.add(["a"])
    doomed = Doomed(app)
    doomed.take()
    stock.mirror(Listed([]))

    assert stock.mirror(Listed(["a"])) == Mirror(1, 0)

    assert stock.item("a").status is Status.RUNNING
    assert stock.freshness().total == 1
    doomed.die()
    assert items_of(app) == {"a"}


@pytest.mark.parametrize(
    ("table", "rows", "says"),
    [
        ("create table product (name varchar(50) primary key)", [], "no column 'code'"),
        ("create table product (code varchar(50))", ["null"], "null"),
        (
            "create table product (code varchar(50), day int)",
            ["'x', 1", "'x', 2"],
            "more than once",
        ),
        ("create table product (code double)", [], "whole"),
        ("create table products (code varchar(50))", [], "no such table"),
    ],
)
def test_a_source_that_cannot_be_used_changes_nothing(app, stock, shop, table, rows, says):
    shop.execute(table)
    for row in rows:
        shop.execute(f"insert into product values ({row})")
    stock.add(["a"])

    for dry_run in (True, False):
        with pytest.raises(BadSource, match=says):
            stock.mirror(shop.source, dry_run=dry_run)

    assert items_of(app) == {"a"}


@pytest.mark.parametrize("given", [["a", "b"], "product", None])
def test_what_is_not_a_source_is_refused(app, stock, given):
    stock.add(["a"])

    with pytest.raises(BadInput, match="source"):
        stock.mirror(given)

    assert items_of(app) == {"a"}


def test_a_source_with_a_bad_key_is_refused(app, stock):
    stock.add(["a"])

    with pytest.raises(BadSource, match="256 characters"):
        stock.mirror(Listed(["a", "b", "x" * 256]))
    with pytest.raises(BadSource, match="7 is not text"):
        stock.mirror(Listed([7, 8]))

    assert items_of(app) == {"a"}


async def test_mirror_has_an_async_twin(app, stock):
    assert await stock.amirror(Listed("abc"), dry_run=True) == Mirror(3, 0, True)
    assert await stock.amirror(Listed("abc")) == Mirror(3, 0)

    assert items_of(app) == set("abc")
