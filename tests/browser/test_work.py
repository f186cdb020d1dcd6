"""Rolling kinds, sweeps, crons, runs and the ring in a browser, with real workers behind them."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.mostly("sqlite")


def test_a_running_sweep_is_split_and_shows_its_new_ranges(glass):
    glass.open("sweeps/offer")
    glass.heading("running")
    ranges = glass.page.get_by_role("group", name="Ranges: progress and speed").get_by_role(
        "button"
    )
    expect(ranges).to_have_count(4)

    glass.page.get_by_label("Number of ranges").last.fill("9")
    glass.press("Split")

    glass.told("There are 9 ranges now.")
    expect(ranges).to_have_count(9)
    expect(glass.page.get_by_role("table", name="Ranges").locator("tbody tr")).to_have_count(9)
    ranges.nth(3).press("Enter")
    expect(ranges.nth(3)).to_have_attribute("aria-pressed", "true")
    glass.press("Audit")
    glass.told("no gap, no overlap")


def test_failed_items_of_a_sweep_are_retried(glass):
    glass.open("sweeps/shelf?tab=failures")
    expect(glass.row("13")).to_contain_text("shelf 13 is stuck")

    glass.press("Retry all")

    glass.told("1 items will run again.")
    expect(glass.page.get_by_text("No failed items")).to_be_visible()
    glass.page.get_by_role("tab", name="Rounds").click()
    expect(glass.page.get_by_role("table", name="Rounds").locator("tbody tr")).to_have_count(1)


def test_an_item_is_added_found_visited_and_removed(glass, house):
    house.shop.stock_level.add(f"SKU-{number:04d}" for number in range(120))

    glass.open("rolling/stock_level")
    glass.press("Add items")
    glass.page.get_by_label("Codes").fill("BOLT-1\nBOLT-2\n")
    glass.press("Add items", glass.page.get_by_role("dialog"))
    glass.told("2 of 2 items are new.")
    glass.page.get_by_label("Code begins with").fill("BOLT")
    expect(glass.row("BOLT")).to_have_count(2)
    glass.press("Visit now", glass.row("BOLT-2"))

    glass.told("BOLT-2 was visited: succeeded.")
    expect(glass.row("BOLT-2")).to_contain_text("7 of BOLT-2")
    glass.press("Remove", glass.row("BOLT-1"))
    glass.confirm("Remove")
    expect(glass.row("BOLT")).to_have_count(1)


def test_the_steps_of_a_run_are_shown_and_a_stuck_one_is_released(glass, house):
    control = house.shop.app.control
    control.start("load", "2026-11", expires="2h")
    for step in ("fetch", "parse"):
        control.step("load", step, "2026-11")

    glass.open("control")
    glass.row("load", "2026-11").get_by_role("link").click()
    glass.heading("running")
    steps = glass.page.locator(".card").filter(has_text="Steps").first
    expect(steps).to_contain_text("fetch")
    expect(steps).to_contain_text("parse")
    glass.press("Release")
    glass.confirm("Release")

    glass.told("load is released.")
    glass.heading("failed")
    glass.press("Start over")
    glass.confirm("Start over")
    glass.told("load will start over.")


def test_a_worker_that_is_killed_leaves_the_ring(glass, house):
    glass.open("ring")
    picture = glass.page.locator("svg.ring")
    expect(picture.locator(".ring-number")).to_have_text("1")
    second = house.start_worker()
    expect(picture.locator(".ring-number")).to_have_text("2")
    expect(picture.locator("g.arc .owned").nth(1)).to_be_attached()

    second.kill()

    expect(picture.locator(".ring-number")).to_have_text("1")
    expect(picture).to_have_accessible_name(re.compile("A 100"))
    (number,) = second.workers
    expect(glass.row(str(number), "left")).to_be_visible()


def test_a_schedule_is_changed_refused_and_reset_and_a_cron_runs_now(glass):
    glass.open("crons")
    expect(glass.row("write_report")).to_contain_text("every day at 03:00")
    glass.row("write_report").get_by_role("link").click()
    glass.heading("write_report")

    glass.press("Change schedule")
    dialog = glass.page.get_by_role("dialog")
    dialog.get_by_label("Expression").last.fill("61 4 * * *")
    glass.press("Set", dialog)
    expect(dialog).to_contain_text("cannot be read")
    glass.excuse("422")
    dialog.get_by_label("Expression").last.fill("30 4 * * mon-fri")
    glass.press("Set", dialog)

    glass.told("write_report runs at 04:30, Monday to Friday.")
    expect(glass.page.locator(".turns li")).to_have_count(5)
    expect(glass.page.get_by_text("set by hand")).to_be_visible()
    glass.press("中文")
    expect(glass.page.locator(".facts").last).to_contain_text("每周一至周五")
    glass.press("English")
    glass.press("Reset to the code")
    glass.confirm("Reset to the code")
    expect(glass.page.get_by_text("set by hand")).to_have_count(0)
    glass.press("Run now")
    glass.confirm("Run now")
    glass.told("It runs as task")
