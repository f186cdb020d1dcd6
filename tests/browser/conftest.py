"""One browser and one shop at work for all tests of this folder; a window for each test.

The browser is Debian's Chromium, and nothing is downloaded. Both end with the folder: while
Playwright runs, no test of another folder could run an event loop of its own.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.glass import Glass, looking
from tests.browser.house import SECRET, House
from tests.fixture.database import Pools, pool_of
from windlass.web.static import is_built

OPTIONS = ("--no-sandbox",) if os.geteuid() == 0 else ()


@pytest.fixture(scope="package")
def browser(pools: Pools) -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        _miss(pools, "program 'chromium' not found; install its package: make servers")
    if not is_built():
        _miss(pools, "the console is not built; make test builds it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(OPTIONS))
        yield browser
        browser.close()


def _miss(pools: Pools, reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(f"the console in a browser: {reason}", pytrace=False)
    pools.missing["console in a browser"] = reason
    pytest.skip(reason)


@pytest.fixture(scope="package")
def houses(
    browser: Browser,
    pools: Pools,
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], House]]:
    """The shop at work on a database of the engine that is asked for."""
    open_houses: dict[str, House] = {}
    with ExitStack() as stack:

        def of(engine: str) -> House:
            if engine not in open_houses:
                pool = pool_of(engine, pools, pytestconfig)
                url = stack.enter_context(pool.migrated())
                house = House(url, tmp_path_factory.mktemp("house"))
                stack.callback(house.close)
                open_houses[engine] = house
            return open_houses[engine]

        yield of


@pytest.fixture
def house(database_engine: str, houses: Callable[[str], House]) -> House:
    """The shop at work, once per engine."""
    return houses(database_engine)


@pytest.fixture
def sqlite_house(houses: Callable[[str], House]) -> House:
    """The shop at work on SQLite, for what is the same on every database."""
    return houses("sqlite")


@pytest.fixture
def glass(house: House, browser: Browser) -> Iterator[Glass]:
    """A window at the console, once per engine."""
    with looking(browser, house.console, secret=SECRET) as glass:
        yield glass


@pytest.fixture
def sqlite_glass(sqlite_house: House, browser: Browser) -> Iterator[Glass]:
    """A window at the console of the shop on SQLite."""
    with looking(browser, sqlite_house.console, secret=SECRET) as glass:
        yield glass
