"""No sum of the ledger grows beyond what every database can store."""

import pytest

from windlass.ledger import BalanceLimit, Ledger
from windlass.ledger.model.ledger import MOST_IN_ALL, MOST_OF_A_SKU

pytestmark = pytest.mark.everywhere
LEFT = 5


@pytest.fixture
def nearly_full(ledger: Ledger) -> Ledger:
    """A ledger as if more had come in and gone out than calls can move in a day."""
    ledger.restock("delivery-1", {"bolt": LEFT * 2})
    ledger.deduct("order-1", {"bolt": LEFT})
    so_far = MOST_IN_ALL - LEFT
    ledger.database.write(
        lambda connection: connection.exec_driver_sql(
            f"update windlass_stock set received = {so_far}, deducted = {so_far - LEFT} "
            "where sku = 'bolt'"
        )
    )
    return ledger


def test_no_more_comes_in_than_can_be_counted(nearly_full):
    for make in (nearly_full.restock, nearly_full.adjust):
        with pytest.raises(BalanceLimit) as refused:
            make("delivery-2", {"bolt": LEFT + 1})
        assert refused.value.facts == {"sku": "bolt", "wanted": LEFT + 1, "room": LEFT}

    nearly_full.restock("delivery-3", {"bolt": LEFT})
    with pytest.raises(BalanceLimit):
        nearly_full.restock("delivery-4", {"bolt": 1})
    assert nearly_full.stock("bolt").received == MOST_IN_ALL


def test_no_more_goes_out_than_can_be_counted(nearly_full):
    nearly_full.database.write(
        lambda connection: connection.exec_driver_sql(
            f"update windlass_stock set received = {MOST_IN_ALL}, deducted = {MOST_IN_ALL - LEFT}"
        )
    )

    nearly_full.deduct("order-2", {"bolt": LEFT - 1})
    with pytest.raises(BalanceLimit) as refused:
        nearly_full.exchange("order-1", "exchange-1", back={"bolt": 1}, out={"bolt": 2})
    assert refused.value.facts == {"sku": "bolt", "wanted": 2, "room": 1}
    nearly_full.give_back("order-2", "return-1", {"bolt": 1})
    with pytest.raises(BalanceLimit):
        nearly_full.deduct("order-3", {"bolt": 2})

    assert nearly_full.stock("bolt").deducted == MOST_IN_ALL - 1


def test_the_largest_quantities_are_far_below_the_end_of_a_bigint():
    assert MOST_IN_ALL + 1_000_000 * MOST_OF_A_SKU < 2**63


def test_a_refusal_of_the_limit_passes_the_audit(ledger):
    ledger.restock("delivery-1", {"bolt": 1})
    ledger.database.write(
        lambda connection: connection.exec_driver_sql(
            f"update windlass_stock set received = {MOST_IN_ALL}, deducted = {MOST_IN_ALL}, "
            "returned = 1"
        )
    )
    with pytest.raises(BalanceLimit):
        ledger.restock("delivery-2", {"bolt": 1})
    with pytest.raises(BalanceLimit):
        ledger.deduct("order-1", {"bolt": 1})

    ledger.database.write(
        lambda connection: connection.exec_driver_sql(
            "update windlass_stock set received = 1, deducted = 0, returned = 0"
        )
    )

    assert ledger.audit().problems == ()
