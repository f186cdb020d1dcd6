"""The demo in a browser: every page shows something, and what should move moves."""

import signal

from playwright.sync_api import expect

from tests.browser.glass import Glass, looking
from tests.demo import PATIENCE, demo
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


def moves(glass: Glass, where: str) -> None:
    """Until what is shown there is something else."""
    place = glass.page.locator(where)
    before = place.inner_text()
    eventually(lambda: place.inner_text() != before, PATIENCE, what=f"a change of {where}")
