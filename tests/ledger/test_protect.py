"""Protection: the database itself refuses to change or delete an entry of the ledger."""

import pytest
from sqlalchemy.exc import DBAPIError

from windlass.ledger import Ledger

pytestmark = pytest.mark.everywhere


@pytest.fixture
def protected(ledger: Ledger):
    ledger.restock("delivery-1", {"bolt": 10})
    ledger.protect()
    yield ledger
    ledger.unprotect()


def execute(ledger: Ledger, statement: str) -> None:
    ledger.database.write(lambda connection: connection.exec_driver_sql(statement))


@pytest.mark.parametrize(
    "statement",
    ["update windlass_stock_entry set quantity = 11", "delete from windlass_stock_entry"],
)
def test_a_protected_entry_can_be_neither_changed_nor_deleted(protected, statement):
    with pytest.raises(DBAPIError, match="only ever added"):
        execute(protected, statement)

    assert [entry.quantity for entry in protected.entries("bolt")] == [10]
    assert protected.audit().ok


def test_a_protected_ledger_works_as_before(protected):
    protected.protect()

    protected.deduct("order-7", {"bolt": 2})
    protected.exchange("order-7", "exchange-1", back={"bolt": 1}, out={"bolt": 1})
    protected.void("order-7")

    assert protected.is_protected()
    assert protected.stock("bolt").available == 10
    assert protected.audit().ok


def test_without_protection_entries_can_be_deleted(protected):
    protected.unprotect()
    protected.unprotect()

    execute(protected, "delete from windlass_stock_entry")

    assert not protected.is_protected()
    assert protected.entries("bolt") == []


def test_truncate_is_refused_where_the_database_has_triggers_on_it(protected, database_engine):
    if database_engine != "postgresql":
        pytest.skip("SQLite has no truncate; MySQL and MariaDB have no trigger on it")

    with pytest.raises(DBAPIError, match="only ever added"):
        execute(protected, "truncate windlass_stock_entry")

    assert len(protected.entries("bolt")) == 1
