"""An audit with problems is an alert, until an audit finds none."""

from contextlib import closing

import pytest

from windlass import App
from windlass.ledger import Ledger


@pytest.fixture
def app(database_url: str):
    with closing(App(database_url)) as made:
        yield made


def spoil(ledger: Ledger, available: int) -> None:
    ledger.database.write(
        lambda connection: connection.exec_driver_sql(
            f"update windlass_stock set available = {available}, received = {available}"
        )
    )


def test_an_audit_with_problems_is_one_alert_until_one_finds_none(app, ledger):
    ledger.restock("delivery-1", {"bolt": 100})
    spoil(ledger, 99)

    ledger.audit()
    ledger.audit()

    (alert,) = app.alerts()
    assert (alert.what, alert.severity, alert.is_open) == ("ledger", "critical", True)
    assert "stock 'bolt': 99 available" in alert.text
    spoil(ledger, 100)
    ledger.audit()
    (alert,) = app.alerts()
    assert alert.resolution == "an audit found no problem"


def test_an_audit_without_problems_raises_nothing(app, ledger):
    ledger.restock("delivery-1", {"bolt": 100})

    assert ledger.audit().ok

    assert app.alerts() == []
