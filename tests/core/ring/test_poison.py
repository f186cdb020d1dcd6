"""How often a task runs that kills its worker each time, and what is counted."""

import pytest

from tests.core.ring.peer import Mate, die, settle
from tests.table import task
from windlass import Status

pytestmark = [pytest.mark.usefixtures("one_clock")]


def run_until_over(app, ref, *, is_long: bool) -> int:
    """Let one worker after another run the task and die with it; how many did."""
    deaths = 0
    while task(app, ref)["status"] != Status.FAILED:
        mate = Mate(app)
        settle(mate)
        for _ in range(4):
            # It may have to wait until nothing else runs here.
            mate.take()
        if mate.running:
            deaths += 1
            if is_long:
                mate.run_long()
        die(mate)
        assert deaths <= 5
    return deaths


@pytest.mark.parametrize("max_lost", [1, 2, 3])
@pytest.mark.parametrize("is_long", [True, False], ids=["long", "at once"])
def test_only_a_death_before_the_first_claim_was_written_is_not_counted(app, max_lost, is_long):
    @app.task(max_lost=max_lost)
    async def poison() -> None: ...

    ref = poison.enqueue()

    # A row that only waited in the ready queue looks like a row that had just begun.
    deaths = run_until_over(app, ref, is_long=is_long)

    assert deaths == max_lost + (0 if is_long else 1)
    row = task(app, ref)
    assert (row["lost"], row["attempt"]) == (max_lost, max_lost)
