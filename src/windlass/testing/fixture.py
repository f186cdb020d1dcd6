"""The fixtures themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module

import pytest

from windlass import telemetry
from windlass.app import App
from windlass.errors import BadInput
from windlass.operate.scratch import Lender, make_lender
from windlass.operate.task import operate
from windlass.testing.borrow import borrowed
from windlass.testing.clock import Clock
from windlass.testing.enqueued import Enqueued, require_enqueued


def pytest_addoption(parser: pytest.Parser) -> None:
    """On which server the databases of the tests are made."""
    parser.getgroup("windlass").addoption(
        "--windlass-database",
        metavar="URL",
        help="make the databases of windlass_app on this server, instead of SQLite files",
    )


@pytest.fixture
def windlass_app_source() -> App | str | None:
    """The app that is tested: an App, or where it is declared, as "shop:app". Override this.

    Without it each test gets an app that declares nothing yet.
    """
    return None


@pytest.fixture
def windlass_clock() -> Clock:
    """The clock of the app: it stands still until `windlass_clock.advance("3h")`."""
    return Clock()


@pytest.fixture(scope="session")
def windlass_lender(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lender]:
    """Makes the databases of this run."""
    lender = make_lender(
        request.config.getoption("--windlass-database", None), tmp_path_factory.mktemp("windlass")
    )
    yield lender
    lender.close()


@pytest.fixture
def windlass_databases(
    windlass_app_source: App | str | None, windlass_lender: Lender
) -> Iterator[list[str]]:
    """The URLs of the databases that the app is on during a test, one for each of its shards.

    Override this to use databases of your own: migrated, and emptied by you.
    """
    app = _declared(windlass_app_source)
    with ExitStack() as loans:
        yield [
            loans.enter_context(windlass_lender.lend())
            for _ in range(1 if app is None else len(app.fleet.shards))
        ]


@pytest.fixture
def windlass_app(
    windlass_app_source: App | str | None, windlass_databases: list[str], windlass_clock: Clock
) -> Iterator[App]:
    """The app of `windlass_app_source`, on a database without a task, by `windlass_clock`.

    What the test's own code enqueues goes there too. Afterwards the app is as it was.
    """
    declared = _declared(windlass_app_source)
    if declared is not None:
        with borrowed(declared, windlass_databases, windlass_clock) as app:
            yield app
        return
    app = App(*windlass_databases, clock=windlass_clock)
    yield app
    app.close()


@pytest.fixture
def assert_enqueued(windlass_app: App) -> Callable[..., Enqueued]:
    """`assert_enqueued(kind, **arguments)`: such a task waits, or the test fails.

    Arguments that are not named may be anything. It returns the task, the oldest if several fit:
    `.key`, `.due_at`, `.priority`, `.arguments`.
    """

    def check(kind: object, /, **arguments: object) -> Enqueued:
        __tracebackhide__ = True
        return require_enqueued(windlass_app, kind, arguments)

    return check


@pytest.fixture
def drain(windlass_app: App) -> Callable[..., None]:
    """`drain()` runs everything that is due, and fails the test if a task failed for good.

    With `may_fail=True` the test goes on. Within an event loop, await `windlass_app.adrain()`.
    """

    def run(*, may_fail: bool = False) -> None:
        __tracebackhide__ = True
        failed: list[telemetry.Event] = []
        stop = telemetry.subscribe(lambda event: _keep_failure(event, failed))
        try:
            windlass_app.drain()
        finally:
            stop()
        if failed and not may_fail:
            raise AssertionError("\n".join(_told(windlass_app, event) for event in failed))

    return run


def _declared(source: App | str | None) -> App | None:
    if isinstance(source, str):
        module, _, name = source.partition(":")
        source = getattr(import_module(module), name or "app")
    if source is not None and not isinstance(source, App):
        raise BadInput(
            f"windlass_app_source is {source!r}; return an App, or where one is, as 'shop:app'"
        )
    return source


def _keep_failure(event: telemetry.Event, failed: list[telemetry.Event]) -> None:
    if event.name in {"task.failed", "task.poison", "range.set_aside"}:
        failed.append(event)


def _told(app: App, event: telemetry.Event) -> str:
    facts = ", ".join(f"{name} {value}" for name, value in event.fields.items())
    task = event.fields.get("task")
    failures = operate.failures_of(app.fleet, task)[0] if isinstance(task, int) else []
    return "\n".join([f"{event.message}: {facts}", *(each.trace for each in failures[:1])])
