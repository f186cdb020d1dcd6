"""A process that does nothing but claim, as fast as it can."""

import random
from multiprocessing.synchronize import Barrier

from tests.core.fetch.manual_worker import Hand
from windlass import App
from windlass.core.fetch.claim import Rows


def make_app(url: str) -> App:
    app = App(url)

    @app.task(keep="1h", max_lost=10)
    async def prey() -> None: ...

    return app


def claim_all(url: str, start: Barrier) -> list[tuple[int, int, int]]:
    """Claim until nothing waits; what was taken, as (task, worker, batch)."""
    app = make_app(url)
    hand = Hand(app)
    taken: list[tuple[int, int, int]] = []
    start.wait(30)
    while tiers := Rows(app.database).tiers(["prey"]):
        for tier in tiers:
            limit = random.randint(1, 20)
            rows = hand.claim_tier(tier, limit)
            assert len(rows) <= limit
            taken += [(row.id, row.worker, row.batch) for row in rows]
    app.close()
    return taken


def rescue_all(url: str, start: Barrier) -> list[tuple[int, int, int]]:
    """Take over until nothing is left to take over; what was taken, as (task, worker, batch)."""
    app = make_app(url)
    hand = Hand(app)
    taken: list[tuple[int, int, int]] = []
    start.wait(30)
    for _ in range(40):
        taken += [(row.id, row.worker, row.batch) for row in hand.rescue(limit=7).again]
    app.close()
    return taken
