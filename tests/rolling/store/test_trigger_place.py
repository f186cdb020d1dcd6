"""Triggers and what is peculiar to each database: places, rights, and ways to write."""

from contextlib import closing

import pytest

from tests.database.plan import SERIES
from tests.fixture.database import migrate
from tests.server import MariaDB
from tests.source.shop import FollowedShop
from windlass.database.database import Database, normalise
from windlass.errors import BadSource
from windlass.rolling.operate import source as follow
from windlass.source.store.table import Table


@pytest.fixture
def shop(database_url):
    with closing(FollowedShop(database_url)) as shop:
        yield shop


@pytest.fixture
def followed(shop):
    shop.make()
    shop.follow()
    return shop


WAYS_TO_REPLACE = {
    "sqlite": [
        "insert or replace into product (code, note) values ('a', 'new')",
        "replace into product (code, note) values ('a', 'newer')",
        "insert or ignore into product (code, note) values ('a', 'newest')",
        "insert into product (code) values ('a') on conflict (code) do update set note = 'x'",
    ],
    "postgresql": [
        "insert into product (code) values ('a'), ('b') on conflict do nothing",
        "insert into product (code) values ('a') on conflict (code) do update set note = 'x'",
        "with gone as (delete from product where code = 'b' returning code) select * from gone",
    ],
    "mysql": [
        "replace into product (code, note) values ('a', 'new')",
        "insert ignore into product (code, note) values ('a', 'newest')",
        "insert into product (code) values ('a') on duplicate key update note = 'x'",
    ],
}


@pytest.mark.parametrize("is_running", [False, True])
def test_a_row_that_is_replaced_stays_an_item(followed, is_running):
    followed.insert("a")
    if is_running:
        followed.set("a", status=1, batch=7)

    for statement in WAYS_TO_REPLACE[followed.backend]:
        followed.execute(statement)
        assert followed.items() - {"b"} == {"a"}

    assert followed.items() == {"a"}


@pytest.mark.parametrize("clause", ["", "or replace", "or ignore", "or abort", "or fail"])
@pytest.mark.parametrize("recursive", ["off", "on"])
def test_the_conflict_clause_of_the_user_does_not_reach_the_items(sqlite_url, clause, recursive):
    with closing(FollowedShop(sqlite_url)) as shop:
        shop.make()
        shop.insert("a")
        shop.follow()
        shop.insert("b", "c")
        shop.set("b", status=1, batch=7)
        shop.execute(
            f"pragma recursive_triggers = {recursive}",
            "delete from product where code = 'b'",
            f"insert {clause} into product (code) values ('b'), ('d')",
            f"update {clause} product set code = 'e' where code = 'd'",
        )

        assert shop.items() == {"b", "c", "e"}
        assert shop.rows()["b"]["status"] == 1
        if clause == "or replace":
            shop.execute(f"insert {clause} into product (code) values ('b'), ('c')")
            assert shop.items() == {"b", "c", "e"}


def test_emptying_a_table_empties_the_items_in_postgresql(postgresql_url):
    with closing(FollowedShop(postgresql_url)) as shop:
        shop.make()
        shop.follow()
        shop.insert("a", "b")
        shop.set("b", status=1, batch=7)

        shop.execute("truncate product")

        assert shop.items() == set()
        assert set(shop.rows()) == {"b"}


@pytest.mark.parametrize(
    "table",
    [
        "(code text primary key deferrable initially deferred)",
        "(code text)",
        "(code text primary key) partition by list (code)",
    ],
)
def test_keys_may_change_places_in_one_statement_of_postgresql(postgresql_url, table):
    with closing(FollowedShop(postgresql_url)) as shop:
        shop.execute(f"create table product {table}")
        if "partition" in table:
            shop.execute(
                "create table first partition of product for values in ('a', 'c')",
                "create table other partition of product default",
            )
        shop.follow()
        shop.insert("a", "b")
        before = shop.rows()

        swap = "update product set code = case code when 'a' then 'b' else 'a' end"
        shop.execute(*[] if "partition" in table else [swap])
        assert shop.rows() == before

        shop.execute("update product set code = code || '2'")
        assert shop.items() == {"a2", "b2"}


def test_a_source_in_another_schema_is_followed(postgresql_url):
    with closing(FollowedShop(postgresql_url)) as shop:
        shop.execute(
            'create schema "the shop"', 'create table "the shop".product (code text primary key)'
        )
        shop.source = Table(postgresql_url, "the shop.product", key="code")
        shop.follow()

        shop.execute(
            "insert into \"the shop\".product values ('a'), ('b')",
            "delete from \"the shop\".product where code = 'b'",
        )

        assert shop.items() == {"a"}
        assert shop.unfollow()


def test_a_user_without_rights_on_the_items_is_followed_too(postgresql_url):
    with closing(FollowedShop(postgresql_url)) as shop:
        shop.make()
        shop.follow()
        shop.execute(
            "create role clerk", "grant select, insert, update, delete on product to clerk"
        )

        shop.execute(
            "set local role clerk",
            "set local search_path = ''",
            "insert into public.product values ('a'), ('b')",
            "update public.product set code = 'c' where code = 'a'",
            "delete from public.product where code = 'b'",
        )

        assert shop.items() == {"c"}
        shop.execute("drop owned by clerk", "drop role clerk")


def test_a_source_in_another_database_of_the_server_is_followed(mariadb_url):
    with closing(FollowedShop(mariadb_url)) as shop:
        shop.execute(
            "create database if not exists `the %% shop`",
            "create table `the %% shop`.product (code varchar(50) primary key)",
        )
        sources = [
            Table(normalise(mariadb_url).set(database="the % shop"), "product", key="code"),
            Table(mariadb_url.replace("127.0.0.1", "localhost"), "the % shop.product", key="code"),
        ]
        for source in sources:
            shop.follow(source=source)

        shop.execute("insert into `the %% shop`.product values ('a'), ('b')")
        shop.execute("delete from `the %% shop`.product where code = 'b'")

        assert shop.items() == {"a"}
        removed = [shop.unfollow(source=each) for each in sources]
        assert removed == [True, False]
        shop.execute("drop database `the %% shop`")


@pytest.mark.parametrize("way", ["one row", "many rows"])
def test_users_who_write_different_keys_do_not_wait_for_each_other(server_url, way):
    with closing(FollowedShop(server_url)) as shop:
        shop.make()
        # A kind of its own: InnoDB also locks the gaps around keys that are gone but not purged.
        shop.follow(kind=way)
        shop.insert(*(f"old-{number}" for number in range(10)))
        waits = "innodb_lock_wait_timeout = 1" if shop.backend == "mysql" else "lock_timeout = '1s'"
        rows = SERIES[shop.database.dialect.server].format(count=9)
        new = {
            "one row": "insert into product (code) values ('{}-0'), ('{}-1')",
            "many rows": f"insert into product (code) select concat('{{}}', i) from {rows} as s",
        }[way]

        with shop.engine.connect() as one, shop.engine.connect() as other:
            for user, name in ((one, "b"), (other, "a"), (one, "d"), (other, "c")):
                user.exec_driver_sql(f"set {waits}")
                user.exec_driver_sql(new.format(name, name))
            one.exec_driver_sql("delete from product where code = 'old-1'")
            other.exec_driver_sql("delete from product where code = 'old-2'")
            one.exec_driver_sql("update product set code = 'e' where code = 'old-3'")
            other.exec_driver_sql("update product set code = 'f' where code = 'old-4'")
            other.commit()
            one.commit()

        with shop.engine.connect() as connection:
            codes = connection.exec_driver_sql("select code from product").scalars().all()
        assert shop.items(kind=way) == set(codes)


def test_a_source_in_another_place_is_refused(shop, second_database_url):
    shop.make()
    if shop.backend == "mysql":
        second_database_url = second_database_url.replace("127.0.0.1", "192.0.2.1")
    elsewhere = [
        Table(second_database_url, "product", key="code"),
        Table("sqlite:///elsewhere.db", "product", key="code"),
        Table("sqlite://", "product", key="code"),
    ]
    if shop.backend != "sqlite":
        others = (normalise(shop.url).set(host="192.0.2.1"), normalise(shop.url).set(port=1))
        elsewhere += [Table(url, "product", key="code") for url in others]

    for source in elsewhere:
        with pytest.raises(BadSource, match=r"cannot be followed: .*call add\(now=True\)"):
            shop.follow(source=source)
        assert not shop.unfollow(source=source)
        assert not shop.is_followed(source=source)


def test_a_database_in_memory_follows_nothing():
    with closing(Database("sqlite://")) as database, pytest.raises(BadSource, match="followed"):
        follow.install(
            database, Table("sqlite://", "product", key="code"), kind="stock", priority=0
        )


def test_a_source_that_cannot_be_used_is_refused_and_left_alone(shop):
    shop.make(shop.exact)
    shop.execute("create view shown as select code from product")

    for source in (
        Table(shop.url, "missing", key="code"),
        Table(shop.url, "product", key="missing"),
        Table(shop.url, "shown", key="code"),
    ):
        with closing(source), pytest.raises(BadSource, match=source.table):
            shop.follow(source=source)
        assert not shop.is_followed(source=source)
    shop.execute("drop view shown")


def test_triggers_are_gone_with_their_table(followed):
    followed.execute("drop table product")

    assert not followed.is_followed()
    assert not followed.unfollow()

    followed.make()
    followed.follow()
    followed.insert("a")
    assert followed.items() == {"a"}


class LoggingMariaDB(MariaDB):
    def command(self):
        kept = [option for option in super().command() if option != "--skip-log-bin"]
        return [*kept, "--log-bin", "--server-id=1"]


@pytest.mark.slow
def test_a_server_that_does_not_trust_the_user_is_told(pytestconfig):
    if "mariadb" not in pytestconfig.getoption("--database"):
        pytest.skip("mariadb is left out by --database")
    with closing(LoggingMariaDB(fast=True).start()) as server:
        url = server.create_database("shop")
        migrate(url)
        server.execute(
            "create user clerk@'127.0.0.1' identified by 'secret'",
            "grant all on shop.* to clerk@'127.0.0.1'",
            "create table shop.product (code varchar(50) primary key)",
        )
        with closing(FollowedShop(url.replace("root@", "clerk:secret@"))) as shop:
            with pytest.raises(BadSource, match="log_bin_trust_function_creators = 1"):
                shop.follow()
            server.execute("set global log_bin_trust_function_creators = 1")
            shop.follow()
            shop.insert("a")

            assert shop.items() == {"a"}
