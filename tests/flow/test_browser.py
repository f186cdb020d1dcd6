"""Flows in a real browser, with a real worker: draw one, start it, and watch it finish."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.fixture.console import SECRET
from tests.watch.test_change import served
from windlass import App
from windlass.web import static

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium"),
    pytest.mark.skipif(not static.is_built(), reason="needs the built console"),
]
WAIT_MILLISECONDS = 20_000


@pytest.fixture
def page(sqlite_url: str) -> Iterator["playwright.Page"]:
    """The console of an app with a worker."""
    app = App(sqlite_url)

    @app.task(retries=0)
    def load(day: str) -> dict[str, object]:
        return {"day": day, "rows": 3}

    @app.task(retries=0)
    def count(rows: int) -> int:
        if rows > 2 and not mended.is_set():
            raise ValueError("<img src=x onerror=alert(1)> too many")
        return rows

    mended = threading.Event()
    with working(app), served(app) as client, browser() as found:
        page = found.new_page(base_url=str(client.base_url))
        asked = page.request.post("/api/session", data={"secret": SECRET})
        assert asked.ok, asked.text()
        page.set_default_timeout(WAIT_MILLISECONDS)
        page.mended = mended
        yield page
    app.close()


@contextmanager
def working(app: App) -> Iterator[None]:
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.1):
            app.drain()

    app.prepare()
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def browser() -> Iterator["playwright.Browser"]:
    with playwright.sync_playwright() as found:
        launched = found.chromium.launch(executable_path=shutil.which("chromium"), headless=True)
        try:
            yield launched
        finally:
            launched.close()


def connect(page, parent: str, child: str) -> None:
    """Draw an edge with the mouse."""

    def middle(name: str, side: str) -> tuple[float, float]:
        handle = page.locator(f'[data-id="{name}"] .react-flow__handle-{side}').bounding_box()
        return handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2

    page.mouse.move(*middle(parent, "right"))
    page.mouse.down()
    page.mouse.move(*middle(child, "left"), steps=10)
    page.mouse.up()


def test_a_flow_is_drawn_started_mended_and_watched_to_its_end(page):
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    page.goto("/flows/template")
    page.get_by_label("Name").first.fill("report")
    for kind in ("load", "count"):
        page.get_by_label("Kind").select_option(kind)
        page.get_by_role("button", name="Add a node").click()
    page.wait_for_timeout(500)
    connect(page, "load", "count")
    page.get_by_label("rows", exact=True).select_option("result:load")
    page.get_by_label("rows: result of load").fill("rows")
    page.locator('.react-flow__node[data-id="load"]').click()
    page.get_by_label("day", exact=True).select_option("argument")
    expect(page.get_by_text("Ready to save.")).to_be_visible()

    page.get_by_role("button", name="Save as a new version").click()
    expect(page.get_by_text("report is saved as version 1.")).to_be_visible()
    page.get_by_role("button", name="Start").click()
    page.locator("dialog").get_by_label("day").fill("monday")
    page.locator("dialog").get_by_role("button", name="Start").click()

    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text("failed", timeout=WAIT_MILLISECONDS)
    page.locator('.react-flow__node[data-id="count"]').click()
    expect(page.get_by_text("<img src=x onerror=alert(1)> too many").first).to_be_visible()
    address = page.url
    assert "node=count" in address
    page.mended.set()
    page.get_by_role("button", name="Retry the node").click()
    expect(heading).to_contain_text("succeeded", timeout=WAIT_MILLISECONDS)
    page.goto(address)
    expect(page.locator(".node-panel").get_by_text("succeeded").first).to_be_visible()
    page.get_by_role("tab", name="Time").click()
    expect(page.get_by_role("list", name="Time").get_by_role("listitem")).to_have_count(2)
    assert dialogs == []
