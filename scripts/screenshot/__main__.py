"""`make screenshots`: every page of the console, in both themes and languages, wide and narrow."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from playwright.sync_api import Browser, Error, Page, sync_playwright

from scripts.screenshot.stock import EVIL

SECRET = "a picture of everything"
BEARER = {"authorization": f"Bearer {SECRET}"}
ROOT = Path(__file__).parents[2]
SHOP = "scripts.screenshot.shop:app"
WIDTHS = {"wide": 1440, "narrow": 390}
WARM_UP_SECONDS = 25
BACK = [{"sku": "bolt-m4", "quantity": 1}, {"sku": "lamp-desk", "quantity": 1}]
GO = "to => { history.pushState(null, '', to); dispatchEvent(new Event('popstate')) }"


class Look(NamedTuple):
    """How a page is looked at."""

    width: Literal["wide", "narrow"]
    theme: Literal["light", "dark"]
    language: Literal["en", "zh"]


LOOKS = (
    Look("wide", "light", "en"),
    Look("wide", "dark", "en"),
    Look("wide", "light", "zh"),
    Look("wide", "dark", "zh"),
    Look("narrow", "light", "en"),
    Look("narrow", "dark", "zh"),
)
PAGES = {
    "overview": "",
    "alerts": "alerts",
    "tasks": "tasks",
    "tasks-failed": "tasks?status=failed",
    "tasks-running": "tasks?status=running",
    "task-running": "tasks/{export}",
    "tasks-none": "tasks?status=blocked&kind=pack",
    "task": "{task}",
    "rolling": "rolling",
    "rolling-kind": "rolling/stock_level",
    "sweeps": "sweeps",
    "sweep": "sweeps/offer",
    "sweep-rounds": "sweeps/thumbnail?tab=rounds",
    "sweep-failures": "sweeps/offer?tab=failures",
    "flows": "flows",
    "flows-templates": "flows?tab=templates",
    "flows-none": "flows?status=cancelled&flow=week",
    "flow-running": "flows/{running}",
    "flow-change": "flows/{running}?change=1",
    "flow-failed": "flows/{failed}?node=train",
    "flow-time": "flows/{failed}?tab=time",
    "flow-nodes": "flows/{large}?tab=nodes",
    "flow-large": "flows/{large}",
    "flow-nested": "flows/{nested}",
    "flow-template": "flows/template/forecast",
    "flow-template-new": "flows/template",
    "crons": "crons",
    "cron": "crons/nightly_backup",
    "cron-often": "crons/import_prices",
    "control": "control",
    "control-failed": "control/backup",
    "control-running": "control/load-recordings?partition=2026-11",
    "tokens": "tokens",
    "ledger": "ledger",
    "ledger-sold-out": "ledger?sold_out=true",
    "ledger-sku": "ledger/stock/bolt-m6",
    "ledger-deductions": "ledger/deductions",
    "ledger-deduction": "ledger/deductions/order-large",
    "ledger-deduction-evil": "ledger/deductions/{evil}",
    "ledger-returns": "ledger/returns",
    "ledger-entries": "ledger/entries",
    "ledger-audit": "ledger/audit",
    "switches": "switches",
    "switch": "switches/charge_card",
    "switch-window": "switches/rebuild_index",
    "ring": "ring",
    "audit": "audit",
    "about": "about",
}

RUNS = {
    "running": "flows?flow=nightly&status=running",
    "failed": "flows?flow=nightly&status=failed",
    "large": "flows?flow=thumbnails",
    "nested": "flows?flow=week",
}


def main(arguments: list[str]) -> int:
    """Make all pictures, or those whose names have one of the arguments in them."""
    # So that the shop is closed however this ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.stderr.write("make screenshots needs chromium; install the package of that name\n")
        return 1
    folder = ROOT / "screenshots"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="windlass-shop-") as place, _shop(Path(place)) as url:
        _act(url)
        time.sleep(WARM_UP_SECONDS)
        _acknowledge(url)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, headless=True)
            complaints = _shoot(browser, url, folder, arguments)
            browser.close()
    sys.stdout.write(f"{len(list(folder.glob('*.png')))} pictures are in {folder}\n")
    for complaint in sorted(complaints):
        sys.stderr.write(f"{complaint}\n")
    return 1 if complaints else 0


@contextmanager
def _shop(place: Path) -> Iterator[str]:
    """The shop with two workers and its console; its address."""
    database = f"sqlite:///{place / 'shop.db'}"
    environment = {**os.environ, "WINDLASS_SHOP": database, "LOGNAME": "ada"}
    windlass = str(Path(sys.executable).parent / "windlass")
    port = str(_free_port())

    def start(*command: str) -> subprocess.Popen[bytes]:
        with (place / "log").open("ab") as log:
            return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)

    seeding = start(sys.executable, "-m", "scripts.screenshot.seed")
    if seeding.wait(timeout=120):
        raise SystemExit((place / "log").read_text())
    started = [
        start(windlass, "worker", SHOP, "--concurrency", "20"),
        start(windlass, "worker", SHOP, "--concurrency", "20"),
        start(windlass, "console", SHOP, "--port", port, "--secret", SECRET),
    ]
    url = f"http://127.0.0.1:{port}/"
    try:
        _wait(url + "api/health")
        yield url
    finally:
        # A worker would wait for the exports, which take minutes; the shop is thrown away anyway.
        for process in started:
            process.kill()
            process.wait()


def _free_port() -> int:
    """A port that nobody listens on: pictures may be made twice at once."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait(url: str) -> None:
    for _ in range(300):
        with suppress(urllib.error.URLError, TimeoutError):
            urllib.request.urlopen(url, timeout=2)
            return
        time.sleep(0.1)
    raise SystemExit(f"{url} does not answer")


def _act(url: str) -> None:
    """Do a few things, so that the audit log has something to tell."""
    _post(
        url,
        ("switches/send_mail/set", {"rate": "40/s"}),
        ("switches/price_check/pause", {"reason": "prices are <i>frozen</i> for the sale"}),
        ("pause", {"group": "night", "reason": "the archive moves", "until": "5h"}),
        ("crons/nightly_backup/set", {"cron": "0 4,16 * * mon-fri"}),
        ("sweeps/offer/split", {"ranges": 32}),
        ("tasks/999999/retry", None),
        ("ledger/deductions/order-large/returns", {"id": "return-9", "lines": BACK}),
    )


def _acknowledge(url: str) -> None:
    """Mark the oldest alert as seen."""
    alerts = json.load(_get(url + "api/alerts"))["items"]
    if alerts:
        _post(url, (f"alerts/{alerts[-1]['id']}/acknowledge", {"quiet": "1h"}))


def _get(url: str) -> Any:
    return urllib.request.urlopen(urllib.request.Request(url, headers=BEARER))


def _post(url: str, *calls: tuple[str, object]) -> None:
    for path, body in calls:
        data = b"" if body is None else json.dumps(body).encode()
        headers = BEARER | {"content-type": "application/json", "x-windlass-user": "ada"}
        request = urllib.request.Request(f"{url}api/{path}", data, headers, method="POST")
        with suppress(urllib.error.HTTPError):
            urllib.request.urlopen(request)


def _shoot(browser: Browser, url: str, folder: Path, only: list[str]) -> set[str]:
    complaints: set[str] = set()
    places = {"task": f"tasks/{_first(url, 'tasks?status=failed')}"}
    places["export"] = _first(url, "tasks?kind=export_year&status=running")
    places |= {name: _first(url, query) for name, query in RUNS.items()}
    for look in LOOKS:
        names = _names(look, only)
        if names:
            with _page(browser, look, complaints) as page:
                asked = {"secret": SECRET, "name": "ada"}
                page.context.request.post(f"{url}api/session", data=asked)
                page.goto(url)
                for name, stem in names.items():
                    address = PAGES[name].format(evil=quote(EVIL, safe=""), **places)
                    _picture(page, address, folder / f"{stem}.png", complaints)
    return complaints


def _first(url: str, query: str) -> str:
    """The id of the first of what is asked for; workers may need a while to get there."""
    for _ in range(60):
        with _get(f"{url}api/{query}&limit=1") as answer:
            found = json.load(answer)["items"]
        if found:
            return str(found[0]["id"])
        time.sleep(1)
    raise SystemExit(f"the shop has nothing to show for {query}")


def _names(look: Look, only: list[str]) -> dict[str, str]:
    """The pages to be shown so, with the names of their pictures."""
    stems = {name: f"{name}-{look.width}-{look.theme}-{look.language}" for name in PAGES}
    return {
        name: stem for name, stem in stems.items() if not only or any(each in stem for each in only)
    }


@contextmanager
def _page(browser: Browser, look: Look, complaints: set[str]) -> Iterator[Page]:
    """A browser's page that looks so; what it complains of is noted."""
    context = browser.new_context(
        viewport={"width": WIDTHS[look.width], "height": 900},
        color_scheme=look.theme,
        locale="zh-CN" if look.language == "zh" else "en-GB",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.on("console", lambda said: _note(complaints, said.type, said.text))
    page.on("pageerror", lambda error: complaints.add(f"error: {error}"))
    yield page
    context.close()


def _picture(page: Page, address: str, path: Path, complaints: set[str]) -> None:
    # As a link does, so that the page need not be loaded anew.
    page.evaluate(GO, f"/{address}")
    with suppress(Error):
        page.wait_for_selector("main h1", timeout=5_000)
        page.wait_for_selector(".skeleton", state="detached", timeout=5_000)
    page.wait_for_timeout(400)
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        complaints.add(f"{path.name}: wider than the screen")
    page.screenshot(path=path, full_page=True)


def _note(complaints: set[str], sort: str, text: str) -> None:
    if sort in ("error", "warning"):
        complaints.add(f"{sort}: {text}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
