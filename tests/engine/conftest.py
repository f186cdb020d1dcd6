"""An app on a clean database of each engine, with a clock that stands still."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from windlass import App, telemetry
from windlass.clock import ManualClock
from windlass.model.duration import parse_duration


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
def other(app, database_url, clock):
    """Another app, as in another process."""
    with closing(App(database_url, clock=clock)) as other:
        yield other


@pytest.fixture
def control_events():
    """The names of events about named runs, as they come."""
    seen = []
    stop = telemetry.subscribe(
        lambda event: seen.append(event.name) if event.name.startswith("control") else None
    )
    yield seen
    stop()
