"""The demo in a browser: every page shows something, and what should move moves."""

import re
import signal
import urllib.error
import urllib.request

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.glass import Glass, looking
from tests.demo import PATIENCE, Demo, demo
from tests.wait import eventually

# A page, and a word that is on it once the shop is open.
PAGES = {
    "tasks": "send_mail",
    "rolling": "stock_level",
    "rolling/stock_level": "stock_level",
    "sweeps": "offer",
    "flows": "cancel_order",
    "control": "import-prices",
    "ledger": "Available",
    "ledger/deductions": "order-",
    "ledger/entries": "deduct",
    "switches": "stock_level",
    "alerts": "",
    "audit": "",
    "about": "sqlite",
}


def test_every_page_of_the_demo_is_alive_and_nothing_is_left_behind(browser, tmp_path):
    with demo(tmp_path) as shop:
        with looking(browser, f"{shop.url}/") as glass:
            glass.open(shop.link)
            look_around(glass)
            go_shopping(glass.page, shop)
            assert glass.complaints == []
        shop.process.send_signal(signal.SIGINT)
        code = shop.process.wait(PATIENCE)

    assert code == 0, shop.lines
    assert "Traceback" not in "".join(shop.lines)
    assert [path.name for path in tmp_path.rglob("*")] == ["tmp"]


def look_around(glass: Glass) -> None:
    assert "token" not in glass.page.url
    expect(glass.figure("Workers")).to_have_text("2", timeout=PATIENCE * 1000)
    moves(glass, ".figure-value >> nth=0")
    for place, word in PAGES.items():
        glass.go(place)
        expect(glass.page.locator("main")).to_contain_text(word, timeout=PATIENCE * 1000)
    glass.go("sweeps/offer")
    moves(glass, "main")
    glass.go("flows?flow=cancel_order&status=succeeded")
    expect(glass.row("cancel_order", "succeeded").first).to_be_visible(timeout=PATIENCE * 1000)
    # One of the two workers is killed now and then, and comes back.
    glass.go("ring")
    number = glass.page.locator("svg.ring .ring-number")
    expect(glass.row("left").first).to_be_visible(timeout=PATIENCE * 1000)
    expect(number).to_have_text("2", timeout=PATIENCE * 1000)


def go_shopping(page: Page, shop: Demo) -> None:
    """Look, buy, exchange and cancel on the page of the shop, as a customer does."""
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{shop.url}/shop/state", timeout=20)
    page.goto(f"{shop.url}/shop")
    expect(page.locator("#offers li")).to_have_count(40)
    orders = page.locator("#orders li")
    offer(page, "anchor-001").get_by_role("button", name="Buy").click()
    expect(orders).to_contain_text("anchor-001")
    orders.get_by_role("button", name="Exchange").click()
    offer(page, "winch-001").get_by_role("button", name="Take").click()
    expect(orders).to_contain_text("winch-001")
    expect(orders).not_to_contain_text("anchor-001")
    orders.get_by_role("button", name="Cancel").click()
    expect(orders).to_contain_text("cancelled", timeout=PATIENCE * 1000)

    page.get_by_role("searchbox").fill("winch-49")
    expect(page.locator("#offers li").first).to_contain_text("winch-49")
    seldom = offer(page, "winch-499")
    seldom.locator(".look").click()
    expect(seldom.locator(".age")).to_have_text(re.compile("asked .* ago"), timeout=PATIENCE * 1000)
    assert re.fullmatch(r"\d+ on hand", seldom.locator(".quantity").inner_text())

    page.get_by_role("searchbox").fill("")
    expect(page.locator("#inbox li").first).to_be_visible(timeout=PATIENCE * 1000)
    expect(page.locator("#sale")).to_contain_text("pieces", timeout=PATIENCE * 1000)
    # An action without the token of the session is refused, as in the console.
    bare = page.request.post(f"{shop.url}/shop/buy", data={"code": "anchor-001"})
    assert bare.status == 403


def offer(page: Page, code: str) -> Locator:
    return page.locator(f'#offers li[data-code="{code}"]')


def moves(glass: Glass, where: str) -> None:
    """Until what is shown there is something else."""
    place = glass.page.locator(where)
    before = place.inner_text()
    eventually(lambda: place.inner_text() != before, PATIENCE, what=f"a change of {where}")
