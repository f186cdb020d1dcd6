"""An app on a clean database of each engine, with a clock that stands still."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest

from tests.clockwork import following
from tests.conftest import pool_of
from tests.database import Pools
from windlass import App, Task, telemetry
from windlass.clock import ManualClock
from windlass.operate.shard import operate as shard
from windlass.value.duration import parse_duration


class Clock(ManualClock):
    """A manual clock that moves by durations as people write them."""

    def forward(self, duration: str) -> None:
        self.advance(parse_duration(duration))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def app(database_url: str, clock: Clock) -> Iterator[App]:
    app = App(database_url, clock=clock)
    yield app
    app.close()


@pytest.fixture
def one_clock(clock: Clock) -> Iterator[None]:
    """Whatever waits in the engine goes by the clock of the database, too."""
    with following(clock):
        yield


@pytest.fixture
def step(app: App) -> Task[..., Any]:
    """A kind whose rows are kept, and which hands move."""

    @app.task(keep="1d", retries=3)
    async def step(number: int = 0) -> None: ...

    return step


@pytest.fixture
def quick_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits until all processes have heard of a change of the shards."""
    monkeypatch.setattr(shard, "HEARD_SECONDS", 0.0)
    monkeypatch.setattr(shard, "LOOK_SECONDS", 0.01)


SETS = {
    "sqlite": ("sqlite", "sqlite", "sqlite"),
    "postgresql": ("postgresql", "postgresql"),
    "mixed": ("mariadb", "sqlite", "postgresql"),
}


@contextmanager
def lend_set(name: str, pools: Pools, config: pytest.Config) -> Iterator[list[str]]:
    """Migrated databases of a set of engines."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(pool_of(engine, pools, config).migrated()) for engine in SETS[name]
        ]


@pytest.fixture(params=["sqlite", "mixed", pytest.param("postgresql", marks=pytest.mark.slow)])
def shard_urls(
    request: pytest.FixtureRequest, pools: Pools, pytestconfig: pytest.Config
) -> Iterator[list[str]]:
    """Databases that become the shards of one app: of one engine, and of several."""
    with lend_set(request.param, pools, pytestconfig) as urls:
        yield urls


@pytest.fixture
def make_app(clock: Clock) -> Iterator[Callable[..., App]]:
    """Makes apps on the manual clock, and closes them."""
    made: list[App] = []

    def make(*urls: str, **options: Any) -> App:
        made.append(App(*urls, clock=clock, **options))
        return made[-1]

    yield make
    for app in made:
        app.close()


@pytest.fixture
def sharded(shard_urls: list[str], make_app: Callable[..., App]) -> App:
    """An app with several shards, on each set of engines."""
    return make_app(*shard_urls)


@pytest.fixture
def other(app, database_url, clock):
    """Another app, as in another process."""
    with closing(App(database_url, clock=clock)) as other:
        yield other


@pytest.fixture
def events():
    """Name and fields of each event, as they come."""
    seen = []
    stop = telemetry.subscribe(lambda event: seen.append((event.name, event.fields)))
    yield seen
    stop()


@pytest.fixture
def control_events():
    """The names of events about named runs, as they come."""
    seen = []
    stop = telemetry.subscribe(
        lambda event: seen.append(event.name) if event.name.startswith("control") else None
    )
    yield seen
    stop()
