"""Who can use the console: both languages, both themes, by keyboard, by links, with every label."""

import re
from itertools import product
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.browser.glass import looking
from tests.browser.house import SECRET
from tests.browser.sight import FAINT_TEXT, FOCUS, UNNAMED

PLACES = (
    *("", "alerts", "tasks", "tasks?status=failed", "rolling", "rolling/stock_level"),
    *("sweeps", "sweeps/offer", "sweeps/shelf?tab=failures", "sweeps/shelf?tab=rounds"),
    *("flows", "flows?tab=templates", "flows/template", "control", "switches"),
    *("switches/send_mail", "downstreams", "queues", "ring", "audit", "tokens", "about", "nowhere"),
    *("ledger", "ledger/deductions", "ledger/returns", "ledger/entries", "ledger/audit"),
)
LEDGER = ("ledger/stock/rail", "ledger/deductions/order%20of%20rails")


@pytest.fixture
def filled(sqlite_house):
    """A shop that has something to show on every page."""
    shop = sqlite_house.shop
    shop.charge_card.enqueue(500)
    shop.stock_level.add(["NUT-1", "NUT-2"])
    run = shop.nightly.start(order=501)
    shop.ledger.restock("delivery of rails", {"rail": 5})
    shop.ledger.deduct("order of rails", {"rail": 2})
    shop.ledger.give_back("order of rails", "return of rails", {"rail": 1})
    with shop.app.control("tidy") as control:
        control.step("sweep the floor", lambda: "clean")
    run.wait(timeout=60)
    return [*PLACES, f"flows/{run.id}", f"flows/{run.id}?node=charge", "control/tidy", *LEDGER]


def test_every_control_has_a_name_and_every_text_can_be_read(sqlite_glass, filled):
    found: list[str] = []
    page = sqlite_glass.open("").page
    for place, theme in product(filled, ("light", "dark")):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        sqlite_glass.go(place)
        expect(page.locator("main h1")).to_have_count(1)
        complaints = [*page.evaluate(UNNAMED), *page.evaluate(FAINT_TEXT)]
        found += [f"/{place}, {theme}: {complaint}" for complaint in complaints]

    assert "\n".join(found) == ""


@pytest.mark.parametrize(("width", "height"), [(390, 800), (1440, 900)])
def test_no_page_is_wider_than_the_screen(sqlite_house, browser, filled, width, height):
    size = {"width": width, "height": height}
    with looking(browser, sqlite_house.console, secret=SECRET, viewport=size) as glass:
        glass.open("")
        for place in filled:
            glass.go(place)
            expect(glass.page.locator("main h1")).to_be_visible()
            assert glass.page.evaluate("document.documentElement.scrollWidth") <= width, place


def test_the_browser_chooses_the_language_until_somebody_does(sqlite_house, browser, filled):
    with looking(browser, sqlite_house.console, secret=SECRET, locale="zh-CN") as glass:
        glass.open("switches")
        menu = glass.page.locator("nav.menu")
        expect(glass.page.locator("html")).to_have_attribute("lang", "zh-CN")
        expect(menu).to_contain_text("总览")
        for place in filled:
            glass.go(place)
            expect(menu).not_to_contain_text("Overview")

        glass.press("English")
        expect(menu).to_contain_text("Overview")
        glass.page.reload()
        expect(menu).to_contain_text("Overview")
        expect(glass.page.locator("html")).to_have_attribute("lang", "en")
        glass.press("Dark theme")
        glass.page.reload()
        expect(glass.page.locator("html")).to_have_attribute("data-theme", "dark")


def test_an_address_restores_what_was_seen_and_back_leads_back(sqlite_glass, sqlite_house):
    glass, page = sqlite_glass, sqlite_glass.page
    sqlite_house.shop.charge_card.using(key="order-77").enqueue(77)
    glass.open("tasks")
    page.get_by_role("button", name="failed").click()
    page.get_by_label("Kind").select_option("charge_card")
    page.get_by_label("Age").select_option("1h")
    page.get_by_label("Exact key").fill("order-77")
    # The address follows when typing has ended; the one row may be there before.
    expect(page).to_have_url(re.compile("order-77"))
    expect(glass.row("charge_card")).to_have_count(1)
    address = page.url

    page.reload()
    expect(glass.row("order-77")).to_have_count(1)
    expect(page.get_by_role("button", name="failed")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_label("Exact key")).to_have_value("order-77")
    glass.row("order-77").get_by_role("link").click()
    glass.heading("failed")
    page.go_back()

    expect(glass.row("order-77")).to_have_count(1)
    assert page.url == address
    assert all(part in address for part in ("status=failed", "kind=charge_card", "age=1h"))
    glass.go("sweeps/shelf")
    page.get_by_role("tab", name="Rounds").click()
    page.reload()
    expect(page.get_by_role("tab", name="Rounds")).to_have_attribute("aria-selected", "true")


def test_the_keyboard_reaches_everything_in_order_and_shows_where_it_is(sqlite_glass):
    page = sqlite_glass.open("switches").page
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.get_by_role("button", name="Pause everything")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Pause everything")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Find a kind")).to_be_focused()

    seen = [page.evaluate(FOCUS)]
    while len(seen) < 12:
        page.keyboard.press("Tab")
        seen.append(page.evaluate(FOCUS))

    tops = [focus["top"] for focus in seen]
    assert tops == sorted(tops)
    assert [focus["name"] for focus in seen if not focus["is_shown"]] == []


def test_keys_lead_to_pages_search_and_help_and_dialogs_keep_the_focus(sqlite_glass):
    glass, page = sqlite_glass.open(""), sqlite_glass.page
    page.keyboard.press("g")
    page.keyboard.press("w")
    glass.heading("Switches")
    page.keyboard.press("/")
    page.keyboard.type("send")
    expect(glass.row("")).to_have_count(1)
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)

    pause = page.get_by_role("button", name="Pause", exact=True)
    expect(pause).to_have_count(1)
    pause.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Pause send_mail?")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    for _ in range(2):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('dialog') !== null")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(pause).to_be_focused()


def test_a_page_that_is_not_there_says_so(sqlite_glass):
    sqlite_glass.open("nowhere/" + quote("at all"))

    sqlite_glass.heading("Page not found")
