"""An app on a clean database of each engine, with a clock that stands still."""

from collections.abc import Iterator

import pytest

from windlass import App
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
