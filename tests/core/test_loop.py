"""Loops: what is told of ticks that fail."""

import pytest

from tests.wait import eventually
from windlass import telemetry
from windlass.core.loop import Loop
from windlass.errors import DatabaseUnavailable


class Failing(Loop):
    """Fails once, then goes on."""

    name = "failing"

    def __init__(self, problem):
        super().__init__()
        self.problems = [problem]
        self.ticks = 0

    def tick(self):
        self.ticks += 1
        if self.problems:
            raise self.problems.pop()
        return 10.0


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (DatabaseUnavailable("away"), ["database.failed", "database.back"]),
        (ValueError("a mistake"), ["loop.failed"]),
    ],
)
def test_only_a_database_that_was_away_is_told_to_be_back(problem, told):
    heard = []
    stop = telemetry.subscribe(lambda event: heard.append(event.name))
    loop = Failing(problem)

    loop.start()
    eventually(lambda: loop.ticks >= 2, what="a tick that succeeds")
    loop.stop()
    loop.join(5.0)
    stop()

    assert heard == told
