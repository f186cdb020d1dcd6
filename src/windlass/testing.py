"""For the tests of users: an app on its own database, a clock that stands still, and what was
enqueued.

pytest finds these fixtures by itself once Windlass is installed. `windlass_app` is an empty app
until `windlass_app_source` names yours:

    @pytest.fixture
    def windlass_app_source():
        return "shop:app"

    def test_an_order_sends_a_mail(windlass_app, assert_enqueued, drain):
        take_order.enqueue("order-7", "ada@example.com")
        drain()
        assert_enqueued("send_mail", to="ada@example.com")

The rest of Windlass imports nothing from here, so that it needs no pytest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from typing import Any

import msgspec
import pytest

from windlass import clock as clocks
from windlass import lent, telemetry
from windlass.app import App
from windlass.clock import ManualClock, from_datetime, to_datetime
from windlass.errors import BadArgument, BadInput
from windlass.operate.scratch import (
    Lender,
    allowed_places,
    begun,
    lent_places,
    make_lender,
    place_of_shard,
)
from windlass.operate.task import operate
from windlass.queue.model.queue import Queue
from windlass.value.duration import Duration, parse_duration
from windlass.value.payload import encode_value
from windlass.value.status import Status
from windlass.value.task import TaskFilter, TaskView

# What is tested, and where it is declared.
Source = App | str | Sequence[App | str] | None

PAGE = 1_000
MOST_SHOWN = 20

__all__ = [
    "Clock",
    "Enqueued",
    "assert_enqueued",
    "borrowed",
    "drain",
    "enqueued",
    "pytest_addoption",
    "windlass_app",
    "windlass_app_source",
    "windlass_clock",
    "windlass_databases",
    "windlass_lender",
    "windlass_outside",
]


class Clock(ManualClock):
    """Stands still until `advance` or `move_to` is called. It begins at 2026-01-01, midnight UTC.

    Delays, back-offs, crons, periods, windows, breakers, expiries and pruning go by it. A
    handler's `timeout` and a `rate` do not: they run on real time.
    """

    @property
    def time(self) -> datetime:
        """The moment at which it stands, in UTC."""
        return to_datetime(max(self._time, self._last))

    def advance(self, by: int | Duration) -> None:
        """Move forward by a duration, such as "3h", "10d" or a timedelta."""
        if isinstance(by, int):
            raise BadInput(f'advance({by!r}): a number of what? write "{by}s" or "{by}m"')
        super().advance(parse_duration(by, what="advance"))

    def move_to(self, moment: datetime) -> None:
        """Move forward to a moment, which must have a time zone."""
        if moment.tzinfo is None:
            raise BadInput(f"move_to({moment}): the moment has no time zone; give it one")
        ahead = from_datetime(moment) - max(self._time, self._last)
        if ahead < 0:
            raise BadInput(f"move_to({moment}): it is {self.time} already; time never goes back")
        super().advance(ahead)


@contextmanager
def borrowed(app: App, databases: Sequence[str], clock: clocks.Clock | None) -> Iterator[App]:
    """`app` on these databases and by this clock; afterwards it is as it was.

    Meanwhile the databases say which workers are alive: a test needs neither etcd nor ZooKeeper.
    The app forgets what it remembered of runs and templates, and sends no alert. A plain `drain()`
    leaves out crons and sweeps, unless the test enqueued or started them. Ledgers and tables on
    the databases of the app move with it; other databases and brokers raise OutsideTest.
    """
    own = [shard.database.url for shard in app.fleet.shards]
    with lent.lent(*lent_places(own, databases, clock)), _moved(app, databases, clock):
        yield app


@contextmanager
def _moved(app: App, databases: Sequence[str], clock: clocks.Clock | None) -> Iterator[None]:
    settings, database, own_clock, drained = app.settings, app.database, app.clock, app.drained
    channels, beats = dict(app.watching.channels), list(app.watching.beats)
    new = App(
        *databases,
        clock=clock,
        lease=timedelta(microseconds=settings.lease),
        dead_after=timedelta(microseconds=settings.dead_after),
        max_payload=settings.max_payload,
    ).fleet.shards
    own = app.fleet.exchange(new)
    app.settings = replace(settings, members=None)
    app.database, app.clock = new[0].database, new[0].clock
    app.drained = _begun_by_test(app)
    app.watching.channels.clear()
    app.watching.beats.clear()
    _forget(app)
    try:
        yield
    finally:
        app.close()
        app.watching.channels.clear()
        app.watching.channels.update(channels)
        app.watching.beats[:] = beats
        app.fleet.exchange(own)
        app.settings, app.database, app.clock, app.drained = settings, database, own_clock, drained
        _forget(app)


@dataclass(frozen=True)
class Enqueued:
    """A task that waits; its arguments as they are stored, in JSON, with defaults filled in."""

    id: int
    kind: str
    key: str | None
    due_at: datetime
    priority: int
    arguments: Mapping[str, Any] = field(hash=False)

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.kind}({given})" + ("" if self.key is None else f" with key {self.key!r}")


def enqueued(app: App, kind: object, /, **arguments: object) -> list[Enqueued]:
    """The waiting tasks of a kind that have at least these arguments, oldest first.

    `kind` is a declared task or its name. Tasks that are due later are among them; tasks that have
    run are not.
    """
    name = _name_of(kind)
    wanted = _as_stored(app, name, arguments)
    return [each for each in _waiting(app, name) if wanted.items() <= each.arguments.items()]


def pytest_addoption(parser: pytest.Parser) -> None:
    """On which server the databases of the tests are made."""
    parser.getgroup("windlass").addoption(
        "--windlass-database",
        metavar="URL",
        help="make the databases of windlass_app on this server, instead of SQLite files",
    )


@pytest.fixture
def windlass_app_source() -> Source:
    """The app that is tested: an App, or where it is declared, as "shop:app". Override this.

    Of a list, the first is `windlass_app`, and the others move to lent databases, too. Without it
    each test gets an app that declares nothing yet.
    """
    return None


@pytest.fixture
def windlass_outside() -> Sequence[str]:
    """URLs of real databases and brokers that tests may use. Override this."""
    return ()


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
def windlass_databases(windlass_app_source: Source, windlass_lender: Lender) -> Iterator[list[str]]:
    """The URLs of the databases that the app is on during a test, one for each of its shards.

    Override this to use databases of your own: migrated, and emptied by you.
    """
    apps = _declared(windlass_app_source)
    with ExitStack() as loans:
        yield [
            loans.enter_context(windlass_lender.lend())
            for _ in range(len(apps[0].fleet.shards) if apps else 1)
        ]


@pytest.fixture
def windlass_app(
    request: pytest.FixtureRequest,
    windlass_app_source: Source,
    windlass_databases: list[str],
    windlass_clock: Clock,
    windlass_outside: Sequence[str],
) -> Iterator[App]:
    """The app of `windlass_app_source`, on a database without a task, by `windlass_clock`.

    What the test's own code enqueues goes there too. Afterwards the app is as it was. If anything
    tried to use another database or a broker, the test fails.
    """
    failed_before = request.session.testsfailed
    apps = _declared(windlass_app_source)
    with ExitStack() as databases, ExitStack() as stack:

        def lend() -> lent.LentPlace:
            lender: Lender = request.getfixturevalue("windlass_lender")
            return lent.LentPlace(databases.enter_context(lender.lend()), windlass_clock)

        first = apps[0] if apps else App(*windlass_databases, clock=windlass_clock)
        own = [shard.database.url for shard in first.fleet.shards]
        places, allowed = lent_places(own, windlass_databases, windlass_clock)
        allowed.update(_outside(windlass_outside))
        loan = stack.enter_context(lent.lent(places, allowed, lend=lend))
        if apps:
            stack.enter_context(_moved(first, windlass_databases, windlass_clock))
        for other in apps[1:]:
            stack.enter_context(_moved(other, _lent_to(other, loan), windlass_clock))
        first.drained = _begun_by_test(first)
        yield first
        first.close()
    if loan.refused and request.session.testsfailed == failed_before:
        pytest.fail(str(loan.refused[0]), pytrace=False)


def _outside(urls: Sequence[str]) -> Iterator[str]:
    """The names of real databases and brokers, as a loan knows them."""
    for url in urls:
        family = url.partition(":")[0].partition("+")[0]
        if family in {"sqlite", "postgresql", "postgres", "mysql", "mariadb"}:
            yield from allowed_places([url])
        else:
            yield Queue(url, "any").address


def _lent_to(app: App, loan: lent.Loan) -> list[str]:
    """The databases of another app: those that the first one is on, or others."""
    places = [place_of_shard(shard) for shard in app.fleet.shards]
    found = [loan.place(name) for name in places]
    loan.allowed.update(allowed_places([each.url for each in found if each]))
    return [each.url for each in found if each]


@pytest.fixture
def assert_enqueued(windlass_app: App) -> Callable[..., Enqueued]:
    """`assert_enqueued(kind, **arguments)`: such a task waits, or the test fails.

    Arguments that are not named may be anything. It returns the task, the oldest if several fit:
    `.key`, `.due_at`, `.priority`, `.arguments`.
    """

    def check(kind: object, /, **arguments: object) -> Enqueued:
        __tracebackhide__ = True
        found = enqueued(windlass_app, kind, **arguments)
        if not found:
            raise AssertionError(_what_waits(windlass_app, _name_of(kind), arguments))
        return found[0]

    return check


@pytest.fixture
def drain(windlass_app: App) -> Callable[..., None]:
    """`drain()` runs everything that is due, and fails the test if a task failed for good.

    Crons and sweeps take part only if the test enqueued or started them, or names them:
    `drain(kinds=["nightly"])` runs only those. With `may_fail=True` the test goes on. Within an
    event loop, await `windlass_app.adrain()`.
    """

    def run(*, kinds: Any = None, may_fail: bool = False) -> None:
        __tracebackhide__ = True
        failed: list[telemetry.Event] = []
        stop = telemetry.subscribe(lambda event: _keep_failure(event, failed))
        try:
            windlass_app.drain(kinds=kinds)
        finally:
            stop()
        if failed and not may_fail:
            raise AssertionError("\n".join(_told(windlass_app, event) for event in failed))

    return run


def _begun_by_test(app: App) -> Any:
    return partial(begun, app.fleet, app.registry, app.sweeps.begun)


def _forget(app: App) -> None:
    app.control.forget()
    app.registry.templates.clear()


def _declared(source: Source) -> list[App]:
    """The apps that are tested; none if the test declares its own."""
    if source is None:
        return []
    if isinstance(source, App | str):
        source = [source]
    return [_loaded(each) for each in source]


def _loaded(source: object) -> App:
    if isinstance(source, str):
        module, _, name = source.partition(":")
        source = getattr(import_module(module), name or "app")
    if not isinstance(source, App):
        raise BadInput(
            f"windlass_app_source is {source!r}; return an App, or where one is, as 'shop:app', "
            "or a list of them"
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


def _name_of(given: object) -> str:
    name = given if isinstance(given, str) else getattr(given, "kind", None)
    if not isinstance(name, str):
        raise BadArgument(f"{given!r} is neither a declared task nor the name of one", kind="")
    return name


def _what_waits(app: App, kind: str, arguments: Mapping[str, object]) -> str:
    """The tasks that wait instead of those that a test wants."""
    wanted = ", ".join(f"{each}={value!r}" for each, value in arguments.items())
    others = _waiting(app, kind)
    does = f"these {len(others)} do:" if len(others) > 1 else "this does:"
    if not others:
        does = f"nothing of kind {kind!r} does"
    told = [f"no task {kind}({wanted}) waits; {does}"]
    told += [f"  {each}" for each in others[:MOST_SHOWN]]
    if len(others) > MOST_SHOWN:
        told.append(f"  and {len(others) - MOST_SHOWN} more")
    return "\n".join(told)


def _waiting(app: App, kind: str) -> list[Enqueued]:
    app.prepare()
    wanted = TaskFilter(kind=kind, status=Status.WAITING)
    rows: list[TaskView] = []
    while page := operate.listing(app.fleet, wanted, limit=PAGE):
        rows += page
        wanted = replace(wanted, before=page[-1].id)
    return [_seen(app, row) for row in reversed(rows)]


def _seen(app: App, row: TaskView) -> Enqueued:
    assert row.due_at is not None
    return Enqueued(
        id=row.id,
        kind=row.kind,
        key=row.key,
        due_at=to_datetime(row.due_at),
        priority=row.priority,
        arguments=_arguments(app, row),
    )


def _arguments(app: App, row: TaskView) -> dict[str, Any]:
    kind = app.registry.get(row.kind)
    parameters = kind.arguments.signature.parameters
    if kind.period is not None:
        # An item is called with its code, which is its key.
        return {next(iter(parameters)): row.key}
    stored: dict[str, Any] = msgspec.json.decode(row.payload)
    for name, parameter in parameters.items():
        if name not in stored and parameter.default is not inspect.Parameter.empty:
            # A default that is not JSON cannot be asked for.
            with suppress(TypeError, ValueError):
                stored[name] = msgspec.json.decode(encode_value(parameter.default))
    return stored


def _as_stored(app: App, kind: str, arguments: Mapping[str, object]) -> dict[str, Any]:
    """Arguments as JSON keeps them; a name that the handler does not have is a mistake."""
    parameters = app.registry.get(kind).arguments.signature.parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    for name in arguments:
        if name not in parameters and not takes_any:
            raise BadArgument(
                f"kind {kind!r} has no parameter {name!r}; it has {', '.join(parameters)}",
                kind=kind,
                argument=name,
            )
    return {name: msgspec.json.decode(encode_value(value)) for name, value in arguments.items()}
