"""Tasks, switches and alerts in a browser, while a real worker runs what is put in."""

import re
from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from tests.wait import eventually
from windlass import Status
from windlass.database import migrate

pytestmark = pytest.mark.mostly("sqlite")


def test_a_task_is_enqueued_by_a_form_that_the_address_fills_in(glass):
    glass.open("tasks/new?kind=charge_card&a.order=x")
    glass.press("Enqueue")
    expect(glass.page.get_by_role("alert")).to_contain_text("This is not a number.")

    glass.page.get_by_role("textbox", name=re.compile("^order")).fill("4711")
    glass.page.get_by_text("More", exact=True).click()
    glass.page.get_by_label("Delay").fill("1h")
    assert "a.order=4711" in glass.page.url
    glass.press("Enqueue")

    glass.told("is enqueued")
    expect(glass.page.locator("pre").first).to_contain_text("4711")


def test_a_kind_that_is_paused_stops_and_goes_on_when_it_is_resumed(glass, house):
    glass.open("switches/send_mail")
    glass.press("Pause")
    glass.confirm("Pause", reason="the mail server moves")
    glass.told("send_mail is paused.")
    glass.heading("paused")

    held = eventually(lambda: held_back(house.shop), 30, what="a task that is held back")
    glass.go(f"tasks/{held.id}").heading("waiting")
    glass.go("")
    expect(glass.row("send_mail")).to_contain_text("the mail server moves")

    glass.go("switches/send_mail")
    glass.press("Resume")
    glass.told("send_mail is resumed.")
    glass.go(f"tasks/{held.id}").heading("succeeded")
    expect(glass.page.get_by_label("Result")).to_contain_text("sent to ada")


def held_back(shop):
    """A task that waits though a later one, of another kind, has run; workers obey in a second."""
    held = shop.send_mail.enqueue("ada")
    shop.print_label.enqueue(1).result(timeout=30)
    return held if held.status() is Status.WAITING else None


def test_a_failed_task_is_found_read_and_retried(glass, house):
    task = house.shop.charge_card.using(key="order-71").enqueue(71)

    glass.open("tasks?status=failed&kind=charge_card&key=order-71")
    glass.row("order-71").get_by_role("link").click()
    glass.heading("failed")
    expect(glass.page.get_by_label("Traceback")).to_contain_text("fail_at_first")
    expect(glass.page.get_by_label("Arguments")).to_contain_text('"order": 71')
    glass.press("Retry")

    glass.told(f"Task {task.id} will run again.")
    glass.heading("succeeded")
    expect(glass.page.get_by_label("Result")).to_contain_text("order 71 is paid")


def test_all_tasks_that_match_are_cancelled_after_a_question(glass, house):
    for number in range(3):
        house.shop.print_label.using(delay="1h").enqueue(number)

    glass.open("tasks?status=waiting&kind=print_label")
    expect(glass.row("print_label")).to_have_count(3)
    glass.press("Cancel all that match")
    glass.confirm("Cancel all that match")

    glass.told("3 tasks are cancelled.")
    expect(glass.page.get_by_text("No task matches")).to_be_visible()


def test_a_list_is_leafed_through_page_by_page_and_back(glass, house):
    refs = house.shop.fetch.using(delay="1h").enqueue_many([{"source": "x"}] * 60)
    newest = sorted((ref.id for ref in refs), reverse=True)
    ids = glass.page.locator("tbody .id")

    glass.open("tasks?kind=fetch&status=waiting")
    expect(ids).to_have_text([str(number) for number in newest[:50]])
    glass.press("Next page")
    expect(ids).to_have_text([str(number) for number in newest[50:]])
    expect(glass.page.get_by_role("button", name="Next page")).to_be_disabled()

    glass.page.reload()
    expect(ids).to_have_text([str(number) for number in newest[50:]])
    glass.page.go_back()
    expect(ids.first).to_have_text(str(newest[0]))
    glass.page.go_forward()
    glass.press("First page")
    expect(ids).to_have_count(50)


def test_what_holds_for_a_kind_is_set_and_taken_back(glass):
    later = (datetime.now(UTC).hour + 3) % 24
    glass.open("switches")
    row = glass.row("publish")
    glass.press("Set…", row)
    glass.page.get_by_label("Rate").fill("30/s")
    glass.page.get_by_label("Window").fill(f"{later:02d}:00-{later:02d}:30")
    glass.press("Set", glass.page.get_by_role("dialog"))
    glass.told("publish was changed.")
    expect(row).to_contain_text("30/s")
    expect(row).to_contain_text("held back")

    glass.press("Set…", row)
    glass.page.get_by_label("Rate").fill("quick")
    glass.press("Set", glass.page.get_by_role("dialog"))
    expect(glass.page.get_by_role("alert")).to_contain_text("quick")
    glass.excuse("/api/switches/publish/set")
    glass.page.get_by_label("Rate").fill("")
    glass.page.get_by_label("Window").fill("")
    glass.press("Set", glass.page.get_by_role("dialog"))
    expect(row).not_to_contain_text("30/s")


def test_a_breaker_opens_raises_an_alert_and_is_closed_by_hand(glass, house):
    glass.open("alerts")
    for number in range(2):
        house.shop.ask_partner.enqueue(number)

    opened = glass.row("ask_partner", "breaker opened").first
    expect(opened).to_be_visible()
    expect(glass.page.get_by_role("link", name="Alerts").locator(".count")).to_be_visible()
    glass.press("Seen", opened)
    expect(opened).to_contain_text("seen by")
    opened.get_by_role("link", name="ask_partner").click()
    glass.heading("breaker open")
    glass.press("Close the breaker")
    glass.confirm("Close the breaker")
    glass.told("The breaker of ask_partner is closed.")
    glass.heading("on")

    glass.go("audit?about=ask_partner")
    expect(glass.row("switch.close_breaker")).to_contain_text("done")


def test_the_overview_and_the_settings_say_what_is_there(glass, house):
    house.shop.export_year.enqueue(2025)

    glass.open("")
    expect(glass.figure("Workers")).to_have_text("1")
    expect(glass.row("export_year").locator("td").nth(3)).to_have_text("1")
    expect(glass.page.locator(".live")).to_have_text("Live")
    glass.go("about")
    expect(glass.page.locator(".facts").first).to_contain_text(re.compile(r"Windlass\s*\d+\.\d+"))
    expect(glass.page.get_by_role("table", name="Databases")).to_contain_text(migrate.VERSION)
