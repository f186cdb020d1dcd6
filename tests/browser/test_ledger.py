"""The ledger in a browser: stock comes in, goes out, comes back, and the books balance."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.mostly("sqlite")


def test_stock_is_restocked_once_however_often_it_is_clicked(glass, house):
    glass.open("ledger")
    glass.press("Restock")
    dialog = glass.page.get_by_role("dialog")
    dialog.get_by_label("SKU, line 1").fill("hinge")
    dialog.get_by_label("Quantity, line 1").fill("12")
    dialog.get_by_role("button", name="Restock", exact=True).dblclick()

    glass.told("12 came in.")
    expect(dialog).to_have_count(0)
    expect(glass.row("hinge")).to_contain_text("12")
    assert house.shop.ledger.stock("hinge").available == 12


def test_a_deduction_is_given_back_in_part_and_voided_and_the_books_balance(glass, house):
    ledger = house.shop.ledger
    ledger.restock("delivery of springs", {"spring": 10})
    ledger.deduct("order of springs", {"spring": 6})

    glass.open("ledger/deductions/order%20of%20springs")
    glass.press("Give back")
    dialog = glass.page.get_by_role("dialog")
    dialog.get_by_role("textbox").first.fill("2")
    glass.press("Give back", dialog)
    glass.told("2 of order of springs were given back.")
    expect(dialog).to_have_count(0)
    assert ledger.stock("spring").available == 6
    glass.press("Void")
    glass.confirm("Void")

    glass.told("order of springs is voided.")
    expect(glass.page.locator("main .badge").first).to_contain_text("voided")
    assert ledger.stock("spring").available == 10
    glass.go("ledger/stock/spring")
    expect(glass.page.locator("main")).to_contain_text("void")
    glass.go("ledger/audit")
    glass.press("Check the books")
    expect(glass.page.get_by_text("The books balance")).to_be_visible()
