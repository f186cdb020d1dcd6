"""A worker that is moved step by step, by hand, over a real store."""

from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Connection, select

from tests.core.ring.silent import mark_dead
from windlass import App
from windlass.app import FACES
from windlass.clock import SECOND
from windlass.core.face import Ended, Site
from windlass.core.fetch.claim import Rescued, Rows, Triage
from windlass.core.finish.finish import write_group, write_inside
from windlass.core.finish.store import Group
from windlass.core.ring import store as ring_store
from windlass.core.ring.heartbeat import leave
from windlass.core.task.store.task import get
from windlass.database.database import Numbers
from windlass.database.dialect.base import Count, Most, Stamp, Tier
from windlass.database.schema import task
from windlass.database.schema import worker as worker_table
from windlass.value.outcome import Failed, Outcome, Succeeded, settle
from windlass.value.task import Claimed, TaskView

LEASE = 30 * SECOND
DEAD_AFTER = 5 * SECOND


class Hand:
    """One life of a worker: everything it does to the database, and nothing in memory."""

    def __init__(self, app: App) -> None:
        app.prepare()
        self.app = app
        self.database = app.database
        self.numbers = Numbers(app.database)
        self.id = self.numbers.take()[0]
        now = app.clock.now()
        kinds = list(app.registry.kinds)
        self.database.write(
            lambda connection: ring_store.join(
                connection,
                number=self.id,
                host="hand",
                pid=1,
                kinds=ring_store.Kinds(serves=kinds, declares=kinds),
                now=now,
                lease_until=now + DEAD_AFTER,
            )
        )

    @property
    def site(self) -> Site:
        """Where it writes."""
        shards = self.app.fleet.shards
        shard = next(each for each in shards if each.database is self.database)
        return Site.at(shard, self.app.registry)

    def stamp(self) -> Stamp:
        now = self.app.clock.now()
        return Stamp(self.numbers.take()[0], self.id, now, now + LEASE)

    def claim(self, limit: int = 1) -> list[Claimed]:
        """Claim up to `limit` due rows of each tier."""
        tiers = Rows(self.database).tiers(self.app.registry.kinds)
        return [taken for tier in tiers for taken in self.claim_tier(tier, limit)]

    def claim_tier(self, tier: Tier, limit: int) -> list[Claimed]:
        stamp = self.stamp()
        return Rows(self.database).claim(tier, stamp, Most(limit, stamp.now))

    def rescue(self, *, alone: bool = False, limit: int = 100) -> Rescued:
        """Take over up to `limit` rows that fell."""
        max_lost = {name: kind.max_lost for name, kind in self.app.registry.kinds.items()}

        def fail_as_poison(connection: Connection, tasks: list[Claimed]) -> None:
            outcome = Failed("poison", "poison")
            endings = self.endings(tasks, outcome)
            write_inside(connection, self.site, self.group(tasks, outcome), endings)

        return Rows(self.database).rescue(
            self.stamp(), Triage(max_lost, alone), limit=limit, fail_as_poison=fail_as_poison
        )

    def group(self, tasks: Iterable[Claimed], outcome: Outcome) -> Group:
        """What finishing `tasks` would write."""
        now = self.app.clock.now()
        group = Group(worker=self.id, now=now)
        for taken in tasks:
            terms = self.app.registry.get(taken.kind).terms
            change = settle(taken, outcome, terms, now=now, turns=False)
            if change is None:
                group.removals[taken.id] = taken.batch
            else:
                group.changes.append(change)
        return group

    def endings(self, tasks: Iterable[Claimed], outcome: Outcome) -> list[Any]:
        """What faces would write with it."""
        ended = [Ended(taken, outcome) for taken in tasks if taken.flow_id is not None]
        return FACES.endings(self.site, ended, worker=self.id)

    def write(
        self,
        group: Group,
        *,
        on_accepted: Callable[[Connection], None] | None = None,
        meanwhile: Callable[[Connection], None] | None = None,
    ) -> set[int] | None:
        """Finish what is in `group`, counting what was accepted.

        `on_accepted` is a callback of the handler's; `meanwhile` only looks in.
        """

        def count(connection: Connection, accepted: set[int]) -> None:
            if meanwhile is not None:
                meanwhile(connection)
            if accepted:
                count = Count(0, "any", self.id, done=len(accepted))
                self.database.dialect.count(connection, [count])

        return write_group(self.site, group, [], beside=count, on_accepted=on_accepted, tries=1)

    def finish(self, tasks: Iterable[Claimed], outcome: Outcome | None = None) -> set[int] | None:
        return self.write(self.group(tasks, outcome or Succeeded()))

    def renew(self) -> bool:
        until = self.app.clock.now() + DEAD_AFTER
        return self.database.write(
            lambda connection: ring_store.renew(connection, number=self.id, lease_until=until)
        )

    def leave(self) -> int | None:
        now = self.app.clock.now()
        return leave(self.database, FACES, number=self.id, now=now, why="left", due={})

    def be_marked_dead(self) -> int | None:
        """What another worker does that looks for silent ones."""
        now = self.app.clock.now()
        return mark_dead(self.database, FACES, number=self.id, now=now, why="silent")

    def die(self) -> int:
        """Be silent for long enough, and be marked dead; how many rows fell."""
        self.app.clock.advance(DEAD_AFTER + SECOND)
        abandoned = self.be_marked_dead()
        assert abandoned is not None
        return abandoned


def snapshot(app: App) -> dict[int, tuple[Any, ...]]:
    """Every column of every task, by id."""
    rows = app.database.read(lambda connection: connection.execute(select(task)).all())
    return {row.id: tuple(row) for row in rows}


def row_of(app: App, number: int) -> TaskView:
    """One task as people see it."""
    found = app.database.read(lambda connection: get(connection, number))
    assert found is not None
    return found


def lease_of(app: App, hand: Hand) -> int:
    query = select(worker_table.c.lease_until).where(worker_table.c.id == hand.id)
    return app.database.read(lambda connection: connection.execute(query).scalar_one())
