"""Access tokens in a browser: made, shown once, used to log in, revoked."""

from playwright.sync_api import expect

from tests.browser.glass import looking
from tests.browser.house import SECRET


def test_a_token_is_made_opens_the_console_and_is_revoked(houses, browser):
    address = houses("sqlite").start_console("--secret", SECRET)
    with looking(browser, address, secret=SECRET) as glass:
        glass.open("tokens")
        glass.heading("Tokens")
        glass.press("Create token")
        dialog = glass.page.get_by_role("dialog")
        dialog.get_by_label("Name").fill("tablet")
        glass.press("operator", dialog)
        glass.press("Create token", dialog)
        shown = dialog.get_by_label("The token")
        expect(shown).to_contain_text("windlass_")
        token = shown.inner_text()
        glass.press("I have kept it", dialog)
        expect(dialog).to_have_count(0)
        assert token not in glass.page.content()
        expect(glass.row("tablet")).to_contain_text("active")

        with looking(browser, address) as other:
            other.excuse("status of 401")
            other.open("switches/publish")
            other.page.get_by_label("Secret").fill(token)
            other.page.get_by_label("Your name").fill("Lin")
            other.press("Log in")
            other.heading("publish")
            expect(other.page.locator(".who")).to_have_text("Lin (token tablet)")
            other.press("Pause")
            other.confirm("Pause", reason="for a moment")
            other.told("publish is paused.")
            other.press("Resume")
            other.told("publish is resumed.")
            other.go("tokens")
            expect(other.row("tablet")).to_be_visible()
            for action in ("Create token", "Revoke"):
                assert other.page.get_by_role("button", name=action, exact=True).count() == 0

            glass.press("Revoke", glass.row("tablet"))
            glass.confirm("Revoke")
            glass.told("tablet is revoked.")
            expect(glass.row("tablet")).to_contain_text("revoked")
            # The page of the other one is asked for again, and has the door instead.
            expect(other.page.get_by_label("Secret")).to_be_visible()

        glass.go("audit?who=Lin (token tablet)")
        expect(glass.row("switch.pause", "publish")).to_contain_text("console token")
