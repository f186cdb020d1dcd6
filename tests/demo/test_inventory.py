"""The stock of the demo's other system."""

from itertools import count, pairwise

from windlass.demo.inventory import Inventory


def test_a_movement_that_comes_twice_counts_once():
    inventory = Inventory()
    inventory.move("delivery-1", {"bolt": 10})

    first = inventory.move("order-1", {"bolt": -3})
    again = inventory.move("order-1", {"bolt": -3})

    assert (first, again) == (True, False)
    assert inventory.ask("bolt") == 7


def test_what_this_shop_moves_is_moved_by_nobody_else():
    inventory = Inventory()
    inventory.move("delivery-1", {"bolt": 10})

    assert {inventory.ask("bolt") for _ in range(200)} == {10}


def test_other_products_are_sold_elsewhere_and_delivered_again():
    minutes = count()
    inventory = Inventory(now=lambda: 60.0 * next(minutes))

    seen = [inventory.ask("rope") for _ in range(500)]

    assert min(seen) >= 0
    assert any(later < before for before, later in pairwise(seen))
    assert any(later > before for before, later in pairwise(seen))
