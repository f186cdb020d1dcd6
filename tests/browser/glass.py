"""A page of the console in a browser, which notes whatever should never happen."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urljoin, urlsplit

from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

PATIENCE_MILLISECONDS = 30_000
# As a link does, without loading the page anew.
GO = "to => { history.pushState(null, '', to); dispatchEvent(new Event('popstate')) }"
WATCH = """
    addEventListener('securitypolicyviolation', event => {
        console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`);
    });
"""


class Glass:
    """What one person sees of one console."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.complaints: list[str] = []
        self.excused: list[str] = []
        page.set_default_timeout(PATIENCE_MILLISECONDS)
        page.add_init_script(WATCH)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self._dialog(dialog.message))
        page.on("request", lambda request: self._asked(request.url))

    def open(self, path: str = "") -> "Glass":
        """Load the console at this path of its own."""
        self.page.goto(urljoin(self.address, path))
        expect(self.page.locator("h1, .door-card form").first).to_be_visible()
        self.settle()
        return self

    def go(self, path: str) -> "Glass":
        """Go on to another page, as by a link."""
        self.page.evaluate(GO, urljoin(self.address, path))
        self.settle()
        return self

    def settle(self) -> None:
        """Until nothing is loading any more."""
        expect(self.page.locator(".skeleton")).to_have_count(0)

    def press(self, name: str, within: Locator | None = None) -> None:
        """Press the button of this name."""
        (within or self.page).get_by_role("button", name=name, exact=True).click()

    def confirm(self, name: str, reason: str | None = None) -> None:
        """Say yes to what the open dialog asks."""
        dialog = self.page.get_by_role("dialog")
        if reason is not None:
            dialog.get_by_label("Reason").fill(reason)
        self.press(name, dialog)
        expect(dialog).to_have_count(0)

    def told(self, text: str) -> None:
        """Until a toast says so."""
        expect(self.page.locator(".toasts")).to_contain_text(text)

    def heading(self, text: str) -> None:
        """Until the page's heading has these words."""
        expect(self.page.locator("main h1")).to_contain_text(text)

    def row(self, *texts: str) -> Locator:
        """The row of a table that has all these words."""
        row = self.page.locator("tbody tr")
        for text in texts:
            row = row.filter(has_text=text)
        return row

    def figure(self, label: str) -> Locator:
        """The value of the large figure under this label."""
        exactly = self.page.locator(".figure").filter(
            has=self.page.locator(".figure-label").get_by_text(label, exact=True)
        )
        return exactly.locator(".figure-value")

    def excuse(self, text: str) -> None:
        """Expect the browser to complain of this."""
        self.excused.append(text)

    def check(self) -> None:
        """Nothing has happened that should not."""
        assert self.page.evaluate("window.hacked") is None
        left = [
            complaint
            for complaint in self.complaints
            if not any(excuse in complaint for excuse in self.excused)
        ]
        assert left == []

    def _said(self, said: object) -> None:
        if said.type in ("error", "warning"):
            self.complaints.append(f"{said.type}: {said.text} {said.location.get('url', '')}")

    def _dialog(self, message: str) -> None:
        self.complaints.append(f"dialog: {message}")

    def _asked(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "data" and parts.netloc != urlsplit(self.address).netloc:
            self.complaints.append(f"request to another host: {url}")


@contextmanager
def looking(
    browser: Browser, address: str, *, secret: str | None = None, **options: object
) -> Iterator[Glass]:
    """A window of its own at a console; at its end nothing must have gone wrong.

    With a secret an operator is logged in already.
    """
    chosen = {"viewport": {"width": 1440, "height": 1000}, "locale": "en-GB", **options}
    context: BrowserContext = browser.new_context(reduced_motion="reduce", **chosen)
    expect.set_options(timeout=PATIENCE_MILLISECONDS)
    try:
        if secret is not None:
            asked = context.request.post(f"{address}api/session", data={"secret": secret})
            assert asked.ok, asked.text()
        glass = Glass(context.new_page(), address)
        yield glass
        glass.check()
    finally:
        context.close()
