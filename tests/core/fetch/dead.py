"""Workers that die, made by hand: they join, claim, and are never heard of again."""

from tests.core.ring.silent import mark_dead
from windlass import App
from windlass.app import FACES
from windlass.clock import SECOND
from windlass.core.fetch.claim import Rows
from windlass.core.ring import store as ring_store
from windlass.database.database import Numbers
from windlass.database.dialect.base import Most, Stamp
from windlass.value.task import Claimed

LEASE = 30 * SECOND


class Doomed:
    """A worker that holds rows and will not finish them; unless it serves, it owns no buckets."""

    def __init__(self, app: App, *, serves: bool = False) -> None:
        app.prepare()
        self.app = app
        self.numbers = Numbers(app.database)
        self.number = self.numbers.take()[0]
        self.held: list[Claimed] = []
        now = app.clock.now()
        kinds = list(app.registry.kinds)
        app.database.write(
            lambda connection: ring_store.join(
                connection,
                number=self.number,
                host="gone",
                pid=1,
                kinds=ring_store.Kinds(serves=kinds if serves else [], declares=kinds),
                now=now,
                lease_until=now + SECOND,
            )
        )

    def take(self, limit: int = 1) -> list[Claimed]:
        """Claim up to `limit` due rows of each tier."""
        now = self.app.clock.now()
        for tier in Rows(self.app.database).tiers(self.app.registry.kinds):
            stamp = Stamp(self.numbers.take()[0], self.number, now, now + LEASE)
            self.held += Rows(self.app.database).claim(tier, stamp, Most(limit, stamp.now))
        return self.held

    def die(self) -> int | None:
        """Be marked dead, as another worker would after a while; how many rows fell."""
        self.app.clock.advance(2 * SECOND)
        return mark_dead(
            self.app.database, FACES, number=self.number, now=self.app.clock.now(), why="test"
        )


def lose(app: App) -> list[Claimed]:
    """Let a worker die with one due row of each tier in its hands."""
    doomed = Doomed(app)
    held = doomed.take()
    assert doomed.die() == len(held)
    return held
