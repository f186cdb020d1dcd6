"""A test suite touches no real database or broker: these are replaced, or the test fails."""

import sqlite3

import pytest

from tests.testing.test_plugin import pytest_of

SHOP = """
from windlass import App, Table
from windlass.ledger import Ledger
from windlass.queue import Queue
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

URL = "sqlite:///{real}/shop.db"
app = App(URL)
ledger = Ledger(URL)
stock = Ledger("sqlite:///{real}/stock.db")
billing = App("sqlite:///{real}/billing.db")
engine = create_engine(URL)
queue = Queue("amqp://guest@127.0.0.1:9/", "product")
seen = []

@app.task
def take_order(order: str) -> None:
    ledger.deduct(order, {{"bolt": 1}})

@billing.task
def bill(order: str) -> None:
    seen.append(order)

@app.task(retries=5)
def bill_later(order: str) -> None:
    bill.enqueue(order)

@app.sweep(Table(URL, "product", key="code"))
def offer(product) -> None:
    seen.append(product["code"])

@app.sweep(Table("sqlite:///{real}/other.db", "product", key="code"))
def offer_others(product) -> None: ...

@app.consume(queue)
def on_product(event: dict) -> None: ...

@app.task(via=queue)
def carried(order: str) -> None:
    seen.append(order)
"""

TEST = """
import pytest, shop
from sqlalchemy import text

@pytest.fixture
def windlass_app_source():
    return {source}

@pytest.fixture(autouse=True)
def clean(windlass_app):
    shop.seen.clear()
"""


@pytest.fixture
def suite(tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "shop.py").write_text(SHOP.format(real=real))
    return tmp_path


def outcome(suite, body, *options, source='"shop:app"'):
    (suite / "test_shop.py").write_text(TEST.format(source=source) + body)
    return pytest_of(suite, *options)


def rows_in(suite) -> int:
    """How many rows the real databases have in any table."""
    total = 0
    for file in (suite / "real").glob("*.db"):
        with sqlite3.connect(file) as connection:
            names = connection.execute(
                "select name from sqlite_master where type = 'table' and name in "
                "('windlass_task', 'windlass_stock', 'windlass_queue')"
            ).fetchall()
            for (name,) in names:
                total += connection.execute(f"select count(*) from {name}").fetchone()[0]
    return total


def test_ledgers_of_modules_are_on_databases_of_the_test(suite, empty_database_url):
    result = outcome(
        suite,
        """
def test_it(windlass_app, drain, windlass_clock):
    shop.ledger.restock("delivery-1", {"bolt": 10})
    shop.stock.restock("delivery-1", {"nut": 5})
    shop.take_order.enqueue("order-7")
    drain()
    assert shop.ledger.stock("bolt").available == 9
    assert [each.sku for each in shop.stock.stocks()] == ["nut"]
    assert shop.ledger.deduction("order-7").id == "order-7"
    shop.ledger.deduct("order-8", {"bolt": 2}, hold="1h")
    windlass_clock.advance("2h")
    drain()
    assert shop.ledger.stock("bolt").available == 9

def test_another_one_finds_them_empty(windlass_app):
    assert shop.ledger.stocks() == shop.stock.stocks() == []

def test_a_ledger_that_is_made_in_a_test_is_there_too(windlass_app):
    from windlass.ledger import Ledger
    shop.ledger.restock("delivery-1", {"bolt": 10})
    assert Ledger(shop.URL).stock("bolt").available == 10
""",
        "--windlass-database",
        empty_database_url,
    )

    assert "3 passed" in result.stdout
    assert rows_in(suite) == 0


def test_a_session_on_the_real_database_fails_the_test_with_the_cure(suite):
    result = outcome(
        suite,
        """
def test_it(windlass_app):
    with shop.Session(shop.engine) as session:
        shop.take_order.using(conn=session).enqueue("order-7")
        session.commit()

def test_raw(windlass_app):
    import sqlite3
    with sqlite3.connect(shop.URL.removeprefix("sqlite:///")) as conn:
        shop.ledger.restock("delivery-1", {"bolt": 1}, conn=conn)

def test_one_on_the_database_of_the_test_joins(windlass_app, assert_enqueued):
    with shop.Session(windlass_app.database.engine) as session:
        shop.take_order.using(conn=session).enqueue("order-7")
        session.commit()
    assert_enqueued("take_order", order="order-7")
""",
    )

    assert "1 passed" in result.stdout
    assert "2 failed" in result.stdout
    assert "windlass_app.database.engine" in result.stdout
    assert rows_in(suite) == 0


def test_a_session_on_another_database_of_the_server_fails_too(
    suite, server_url, second_database_url
):
    result = outcome(
        suite,
        f"""
from windlass.testing import Clock

@pytest.fixture
def windlass_databases():
    return [{server_url!r}]

def test_it(windlass_app):
    engine = shop.create_engine(shop.app.database.dialect.clean(
        __import__("windlass.database.url", fromlist=["x"]).normalise({second_database_url!r})))
    with shop.Session(engine) as session:
        shop.take_order.using(conn=session).enqueue("order-7")

def test_its_own(windlass_app, assert_enqueued):
    with windlass_app.database.engine.begin() as connection:
        shop.take_order.using(conn=connection).enqueue("order-7")
        raw = connection.connection.driver_connection
        shop.take_order.using(conn=raw).enqueue("order-8")
    assert_enqueued("take_order", order="order-8")
""",
    )

    assert "1 failed, 1 passed" in result.stdout, result.stdout
    assert "conn=, which is on" in result.stdout


def test_an_app_of_another_module_fails_the_test_even_if_a_retry_hides_it(suite):
    result = outcome(
        suite,
        """
def test_it(windlass_app):
    shop.bill.enqueue("order-7")

def test_hidden(windlass_app, drain):
    shop.bill_later.enqueue("order-7")
    drain()
""",
    )

    assert "1 error in" in result.stdout
    assert "1 failed, 1 passed" in result.stdout
    assert "windlass_app_source" in result.stdout
    assert rows_in(suite) == 0


def test_an_app_of_another_module_that_is_named_moves_too(suite, empty_database_url):
    result = outcome(
        suite,
        """
def test_it(windlass_app, drain):
    shop.bill_later.enqueue("order-7")
    drain()
    shop.billing.drain()
    assert shop.seen == ["order-7"]
""",
        "--windlass-database",
        empty_database_url,
        source='["shop:app", "shop:billing"]',
    )

    assert "1 passed" in result.stdout
    assert rows_in(suite) == 0


def test_tables_are_read_in_the_database_of_the_test_or_not_at_all(suite):
    result = outcome(
        suite,
        """
def test_it(windlass_app, drain):
    with windlass_app.database.engine.begin() as connection:
        connection.execute(text("create table product (code varchar(9) primary key)"))
        connection.execute(text("insert into product values ('bolt')"))
    shop.offer.start()
    drain()
    assert shop.seen == ["bolt"]

def test_other(windlass_app, drain):
    shop.offer_others.start()
""",
    )

    assert "1 failed, 1 passed" in result.stdout
    assert "product in sqlite" in result.stdout
    assert not (suite / "real" / "other.db").exists()


def test_brokers_are_left_alone_and_carried_tasks_run_in_the_test(suite):
    pytest.importorskip("kombu")
    result = outcome(
        suite,
        """
def test_it(windlass_app, drain):
    windlass_app.publish(shop.queue, {"code": "bolt"})
    shop.carried.enqueue("order-7")
    drain()
    assert shop.seen == ["order-7"]

def test_named(windlass_app, drain):
    drain(kinds=["on_product"])
""",
    )

    assert "1 failed, 1 passed" in result.stdout
    assert "amqp://127.0.0.1:9" in result.stdout


def test_what_a_test_allows_it_may_use(suite):
    result = outcome(
        suite,
        """
@pytest.fixture
def windlass_outside():
    return [str(shop.billing.database.url)]

def test_it(windlass_app):
    shop.bill.enqueue("order-7")
""",
    )

    assert "1 passed" in result.stdout
    assert rows_in(suite) == 1


def test_afterwards_everything_is_as_it_was(suite):
    result = outcome(
        suite,
        """
def test_it(windlass_app):
    shop.ledger.restock("delivery-1", {"bolt": 10})

@pytest.fixture(autouse=True)
def clean():
    pass

def test_without_the_fixture():
    shop.ledger.restock("delivery-1", {"bolt": 3})
    assert shop.ledger.stock("bolt").available == 3
""",
    )
    assert "2 passed" in result.stdout
    assert rows_in(suite) == 1
