"""Tables as sources of keys: what is refused, and that no key is lost, doubled or bent."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from tests.server.relay import Relay
from tests.source.shop import Shop
from windlass.errors import BadDatabase, BadSource, DatabaseUnavailable
from windlass.source.store.table import PART, Table

ODD = [
    "a",
    "A",
    "b",
    "á",
    "a\u0301",
    "Z",
    "_",
    "0",
    "10",
    "9",
    "é",
    "ß",
    "ss",
    "\uffee",
    "🚢",
    "漢",
]


@pytest.fixture
def shop(empty_database_url):
    with closing(Shop(empty_database_url)) as shop:
        yield shop


@pytest.fixture
def product(shop):
    return shop.source


def read(table):
    parts = table.keys()
    return [key for part in parts for key in part]


def in_byte_order(keys):
    return sorted(keys, key=str.encode)


def test_a_table_is_a_value_that_hides_its_password():
    url = "postgresql://ada:secret@db.example/shop?password=secret"

    table = Table(url, "sale.product", key="code")

    assert (table.schema, table.table, table.key) == ("sale", "product", "code")
    assert table == Table(url, "sale.product", key="code")
    assert len({table, Table(url, "sale.product", key="id")}) == 2
    assert "secret" not in repr(table) + table.name
    assert table.name == "sale.product in postgresql+psycopg://ada:***@db.example/shop"


@pytest.mark.parametrize("name", ["", "  ", None, 7, "a.", ".a", "a.b.c"])
def test_what_is_not_the_name_of_a_table_is_refused(name):
    with pytest.raises(BadSource, match='write it as "product"'):
        Table("sqlite:///shop.db", name, key="code")


@pytest.mark.parametrize("key", ["", " ", None, 7])
def test_what_is_not_the_name_of_a_column_is_refused(key):
    with pytest.raises(BadSource, match="give the column's name"):
        Table("sqlite:///shop.db", "product", key=key)


def test_what_is_not_the_url_of_a_database_is_refused():
    with pytest.raises(BadDatabase):
        Table("oracle://shop", "product", key="code")


def test_a_table_that_does_not_exist_is_refused_with_similar_ones(shop, product):
    shop.execute("create table products (code varchar(50))")

    with pytest.raises(BadSource, match="no such table; similar: products"):
        product.check()


def test_a_column_that_does_not_exist_is_refused_with_those_that_do(shop):
    shop.make()

    with closing(Table(shop.url, "product", key="cod")) as table:
        with pytest.raises(BadSource, match="no column 'cod'; its columns: code, note"):
            table.check()
        with pytest.raises(BadSource, match="no column 'cod'"):
            table.present(["a"])


@pytest.mark.parametrize("kind", ["float", "date", "numeric(10, 2)"])
def test_a_column_of_another_type_is_refused(shop, product, kind):
    shop.make(f"{kind} not null")

    with pytest.raises(BadSource, match="a key must be text or a whole number"):
        product.check()


def test_a_null_key_is_refused(shop, product):
    shop.make("varchar(50)", codes=["a", None])

    with pytest.raises(BadSource, match="column 'code' is null in some row"):
        product.check()
    with pytest.raises(BadSource, match="cannot be a key"):
        read(product)


def test_a_key_that_comes_twice_is_refused(shop, product):
    shop.make("varchar(50)", codes=["a", "b", "b", "c"])

    with pytest.raises(BadSource, match="column 'code' is not unique, 'b' comes more than once"):
        product.check()
    with pytest.raises(BadSource, match="'b' comes more than once"):
        read(product)


@pytest.mark.parametrize(
    ("code", "why"),
    [("", "empty"), ("windlass:tick", "reserved"), ("x" * 256, "256 characters")],
)
def test_a_value_that_cannot_be_a_key_is_refused(shop, product, code, why):
    shop.make("varchar(300)", codes=["a", code])

    with pytest.raises(BadSource, match=rf"product in .*cannot be a key: .*{why}"):
        read(product)


@pytest.mark.parametrize("column", ["varchar(50) primary key", "varchar(50) unique", "varchar(50)"])
def test_keys_come_in_the_byte_order_of_utf8(shop, product, column):
    if shop.backend == "mysql":
        column = column.replace("(50)", "(50) character set utf8mb4 collate utf8mb4_bin")
    shop.make(column, codes=ODD)

    product.check()

    assert read(product) == in_byte_order(ODD)
    assert product.present([*ODD, "x", "á ", "B"]) == set(ODD)


def test_a_column_that_ignores_case_is_read_exactly(shop, product):
    shop.make_ignoring_case(codes=["b", "A", "Z", "a1", "c"])

    product.check()

    assert read(product) == ["A", "Z", "a1", "b", "c"]
    assert product.present(["a", "A", "B", "c", "C", "A1"]) == {"A", "c"}


def test_whole_numbers_are_keys_as_their_decimal_text(shop, product):
    shop.make("bigint primary key", codes=[1, 2, 10, 9, -3, 100, 2**40])

    product.check()

    assert read(product) == ["-3", "1", "10", "100", str(2**40), "2", "9"]
    asked = ["1", "01", "+1", "1.0", "10", "x", "", "-3", "7", str(2**40), "9" * 19, "9" * 400]
    assert product.present(asked) == {"1", "10", "-3", str(2**40)}


def test_the_padding_of_fixed_width_text_is_not_part_of_a_key(shop, product):
    shop.make("char(10) primary key", codes=["b", "ab"])

    assert read(product) == ["ab", "b"]
    assert product.present(["ab", "ab ", "b", "c"]) == {"ab", "b"}


def test_a_view_is_a_source_too(shop):
    shop.make("varchar(50)", codes=["a", "b", "b"])
    shop.execute("create view shown as select distinct code from product where code <> 'a'")

    with closing(Table(shop.url, "shown", key="code")) as shown:
        shown.check()
        assert read(shown) == ["b"]
        assert shown.present(["a", "b"]) == {"b"}


def test_odd_names_are_quoted(shop):
    shop.execute(
        {
            "mysql": 'create table `order "%%d``` (`the "key:%%s` varchar(20) primary key)',
            "postgresql": 'create table "order ""%%d`" ("the ""key:%%s" varchar(20) primary key)',
            "sqlite": 'create table "order ""%d`" ("the ""key:%s" varchar(20) primary key)',
        }[shop.backend]
    )

    with closing(Table(shop.url, 'order "%d`', key='the "key:%s')) as table:
        table.check()
        assert read(table) == []
        assert table.present(["a"]) == set()


def test_an_empty_table_has_no_keys(shop, product):
    shop.make()

    product.check()

    assert list(product.keys()) == []
    assert product.present([]) == set()


def test_many_keys_are_streamed_in_lists(shop, product):
    shop.make_many(150_000)
    product.check()
    tracemalloc.start()

    sizes = list(map(len, product.keys()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert sizes == [PART] * 15
    # All of them at once would be more than 15 MB.
    assert peak < 6_000_000


def test_keys_are_those_of_one_moment(shop, product):
    shop.make_many(30_000)
    if shop.backend == "sqlite":
        shop.execute("pragma journal_mode = wal")
    parts = product.keys()
    first = next(parts)

    shop.execute(
        "delete from product where code >= '00015000'", "insert into product values ('z', '')"
    )

    assert len(first) + sum(len(part) for part in parts) == 30_000
    assert len(read(product)) == 15_000


def test_one_who_stops_early_does_not_wait_for_the_rest(shop, product):
    shop.make_many(100_000)

    parts = product.keys()
    next(parts)
    parts.close()

    assert product.present(["00000001", "x"]) == {"00000001"}
    assert len(read(product)) == 100_000


def test_present_takes_ten_thousand_keys(shop, product):
    shop.make_many(20_000)
    asked = [f"{number:08d}" for number in range(15_001, 25_001)]

    assert product.present(asked) == set(asked[:5_000])


def test_threads_share_a_table(shop, product):
    shop.make(codes=[f"k{number}" for number in range(100)])

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda number: product.present([f"k{number}"]), range(100)))

    assert found == [{f"k{number}"} for number in range(100)]


def test_a_table_may_be_named_with_its_schema(shop):
    shop.make(codes=["a"])
    schema = {
        "sqlite": "main",
        "postgresql": "public",
        "mysql": shop.engine.url.database,
    }[shop.backend]

    with closing(Table(shop.url, f"{schema}.product", key="code")) as table:
        table.check()
        assert read(table) == ["a"]


def test_a_lost_connection_never_looks_like_the_end(server_url):
    shop = Shop(server_url)
    shop.execute("drop table if exists product")
    shop.make_many(200_000)
    relay = Relay(shop.engine.url.port)
    table = Table(relay.url(shop.url), "product", key="code")
    with relay, closing(table):
        parts = table.keys()
        next(parts)
        relay.cut()

        with pytest.raises(DatabaseUnavailable, match="product in "):
            list(parts)

        assert len(read(table)) == 200_000
    shop.engine.dispose()


def test_a_server_that_is_away_is_told_without_the_password(server_url):
    url = Shop(server_url).engine.url
    away = url.set(port=1, password="secret-word")

    with closing(Table(away, "product", key="code")) as table:
        for use in (table.check, lambda: read(table), lambda: table.present(["a"])):
            with pytest.raises(DatabaseUnavailable, match="product in ") as told:
                use()
            assert "secret-word" not in str(told.value)
            assert "\n" not in str(told.value)


def test_a_file_that_does_not_exist_is_refused_and_not_made(tmp_path):
    file = tmp_path / "shop.db"

    with pytest.raises(BadSource, match="no such file"):
        Table(f"sqlite:///{file}", "product", key="code").check()

    assert not file.exists()


def test_a_database_in_memory_is_refused():
    with pytest.raises(BadSource, match="in memory"):
        Table("sqlite://", "product", key="code").check()


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_the_journal_of_a_file_stays_as_it_is(tmp_path, mode):
    shop = Shop(f"sqlite:///{tmp_path / 'the #1 shop?.db'}")
    shop.execute(f"pragma journal_mode = {mode}")
    shop.make(codes=["a"])
    shop.engine.dispose()

    with closing(shop.source) as table:
        table.check()
        assert read(table) == ["a"]

    with shop.engine.connect() as connection:
        assert connection.exec_driver_sql("pragma journal_mode").scalar() == mode
    shop.engine.dispose()


def test_text_that_is_not_utf8_is_refused(tmp_path):
    shop = Shop(f"sqlite:///{tmp_path / 'shop.db'}")
    shop.make()
    shop.execute("insert into product (code) values (cast(x'ff41' as text))")

    with closing(shop.source) as table, pytest.raises(BadSource, match=r"product in .*UTF-8"):
        read(table)
    shop.engine.dispose()
