"""An audit that finds problems raises one alert, and an audit that finds none resolves it."""

from contextlib import closing

import pytest

from windlass import App
from windlass.ledger import Ledger
from windlass.ledger.operate import Ledgers

pytestmark = pytest.mark.everywhere


@pytest.fixture
def app(database_url):
    with closing(App(database_url)) as made:
        yield made


@pytest.fixture
def ledger(app):
    made = Ledger(app.database)
    made.restock("delivery-1", {"bolt": 100, "nut": 7})
    return made


def set_available(ledger: Ledger, available: int) -> None:
    ledger.database.write(
        lambda connection: connection.exec_driver_sql(
            f"update windlass_stock set available = {available}, received = {available} "
            "where sku = 'bolt'"
        )
    )


def test_problems_are_one_alert_until_an_audit_finds_none(app, ledger):
    ledger.audit()
    assert list(app.alerts()) == []

    set_available(ledger, 3)
    assert not ledger.audit().ok
    assert not ledger.audit().ok
    (found,) = app.alerts()
    assert (found.what, found.kind, found.severity, found.times) == ("ledger", None, "critical", 2)
    assert found.is_open
    assert "an audit of the ledger found " in found.text
    assert "stock 'bolt': 3 available" in found.text

    set_available(ledger, 100)
    assert ledger.audit().ok
    (found,) = app.alerts()
    assert not found.is_open
    assert found.resolution == "an audit of the ledger found no problem"


async def test_every_way_to_audit_tells_it(app, ledger):
    set_available(ledger, 3)

    Ledgers(app.fleet).audit()
    await ledger.aaudit()

    (found,) = app.alerts()
    assert found.times == 2


def test_an_audit_in_the_transaction_of_the_caller_writes_nothing(app, ledger):
    set_available(ledger, 3)

    with ledger.database.engine.connect() as connection, connection.begin():
        assert not ledger.audit(conn=connection).ok

    assert list(app.alerts()) == []


def test_the_audit_is_answered_even_if_its_alert_cannot_be_written(sqlite_url, caplog):
    ledger = Ledger(sqlite_url)
    ledger.restock("delivery-1", {"bolt": 100})
    set_available(ledger, 3)
    ledger.database.write(
        lambda connection: connection.exec_driver_sql("drop table windlass_alert")
    )

    found = ledger.audit()

    assert not found.ok
    assert "alert ledger was not written" in caplog.text
    ledger.close()
