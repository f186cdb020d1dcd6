"""The door in a browser: secrets, names, roles, and the way out."""

import pytest
from playwright.sync_api import expect

from tests.browser.glass import looking
from tests.browser.house import SECRET

VIEWER_SECRET = "only looking around here"


@pytest.fixture(scope="module")
def locked(houses):
    """The address of a console that asks for a secret."""
    return houses("sqlite").start_console("--secret", SECRET, "--viewer-secret", VIEWER_SECRET)


@pytest.fixture
def door(locked, browser):
    with looking(browser, locked) as glass:
        # The browser itself tells that it was not let in, or not any more.
        glass.excuse("/api/session")
        glass.excuse("status of 401")
        yield glass


def log_in(door, secret, name=""):
    door.page.get_by_label("Secret").fill(secret)
    door.page.get_by_label("Your name").fill(name)
    door.press("Log in")


def test_a_wrong_secret_does_not_open_and_the_right_one_does(door):
    door.open("switches")
    log_in(door, "open sesame")
    expect(door.page.get_by_role("alert")).to_contain_text("secret")
    expect(door.page.locator("nav.menu")).to_have_count(0)

    log_in(door, SECRET, name="Ada")

    door.heading("Switches")
    expect(door.page.locator(".who")).to_have_text("Ada")
    cookies = door.page.context.cookies()
    assert [(cookie["httpOnly"], cookie["sameSite"]) for cookie in cookies] == [(True, "Strict")]
    assert SECRET not in door.page.content()
    door.press("Log out")
    expect(door.page.get_by_label("Secret")).to_be_visible()


def test_what_somebody_does_is_written_down_under_their_name(door):
    door.open("switches/publish")
    log_in(door, SECRET, name="Grace")
    door.press("Pause")
    door.confirm("Pause", reason="for a moment")
    door.told("publish is paused.")
    door.press("Resume")
    door.told("publish is resumed.")

    door.go("audit?who=Grace")

    expect(door.row("switch.pause", "publish")).to_contain_text("Grace")


def test_a_viewer_sees_everything_and_can_change_nothing(door):
    door.open("")
    log_in(door, VIEWER_SECRET, name="Eve")

    expect(door.page.locator(".who")).to_contain_text("read-only")
    for place in ("switches/send_mail", "sweeps/offer", "rolling/stock_level", "control", "flows"):
        door.go(place)
        expect(door.page.locator("main h1")).to_be_visible()
        for action in ("Pause", "Set…", "Split", "Add items", "Visit now", "Start a flow"):
            assert door.page.get_by_role("button", name=action, exact=True).count() == 0, place
    door.excuse("/api/switches/send_mail/pause")
    answer = door.page.evaluate(
        """async () => {
            const { token } = await (await fetch('/api/session')).json();
            const headers = { 'x-csrf-token': token, 'content-type': 'application/json' };
            const asked = { method: 'POST', headers, body: '{}' };
            return (await fetch('/api/switches/send_mail/pause', asked)).status;
        }"""
    )
    assert answer == 403


def test_the_printed_link_opens_the_console_in_one_browser_only(houses, browser):
    house = houses("sqlite")
    link = house.start_linked_console()
    address = link.partition("login?")[0]

    with looking(browser, address) as glass:
        glass.open(link)
        expect(glass.page.locator("nav.menu")).to_be_visible()
        assert glass.page.url == address
        assert "token=" not in glass.page.evaluate(
            "document.referrer + JSON.stringify(history.state)"
        )
        glass.open("switches")
        glass.heading("Switches")
        assert glass.page.get_by_role("button", name="Pause", exact=True).count() > 0

    with looking(browser, address) as other:
        other.excuse("/api/session")
        other.excuse("status of 401")
        other.open(link)
        expect(other.page.locator(".door-card")).to_contain_text("The link works once")
        other.page.get_by_label("Token of the link").fill(link.partition("token=")[2])
        other.press("Log in")
        expect(other.page.get_by_role("alert")).to_contain_text("the link was used, or is wrong")
    assert house.processes[-1].terminate() == 0
