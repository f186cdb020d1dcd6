"""Crons in a browser, with real workers behind them."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.mostly("sqlite")


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
