"""Items that are visited together: the same becomes of them as of each alone."""

from contextlib import closing

import pytest
from sqlalchemy import select, update

from tests.core.fetch.manual_worker import Hand
from windlass import App
from windlass.clock import SECOND, ManualClock
from windlass.core.fetch.claim import Rows
from windlass.core.finish.store import Group
from windlass.database.dialect.base import Most, Tier
from windlass.database.schema import task
from windlass.value.outcome import SUCCESS, settle, settle_visits
from windlass.value.period import GOES, HURRIED

CODES = [f"item-{number}" for number in range(5)]
KINDS = ("together", "apart")
# What differs between two kinds that have the same items.
OWN = {"id", "kind", "bucket", "batch"}


@pytest.fixture
def app(database_url):
    with closing(App(database_url, clock=ManualClock())) as app:
        for kind in KINDS:
            app.rolling(every="1d", name=kind, priority=3)(visited).add(CODES)
        app.clock.advance(SECOND)
        yield app


def visited(code: str) -> None: ...


def rows_of(app, kind):
    query = select(task).where(task.c.kind == kind).order_by(task.c.task_key)
    rows = app.database.read(lambda connection: connection.execute(query).mappings().all())
    return [{name: value for name, value in row.items() if name not in OWN} for row in rows]


def put(app, *codes, **values):
    statement = update(task).where(task.c.task_key.in_(codes)).values(**values)
    app.database.write(lambda connection: connection.execute(statement))


def take(app, kind, priority, stamp):
    rows = Rows(app.database)
    way = rows.read if stamp.batch is None else rows.claim
    return way(Tier(kind, priority, 0), stamp, Most(10, stamp.now))


@pytest.mark.parametrize("is_disturbed", [False, True])
@pytest.mark.parametrize(("is_read", "is_hurried"), [(True, False), (False, True)])
def test_items_visited_together_become_what_each_would_alone(
    app, is_read, is_hurried, is_disturbed
):
    hand, now = Hand(app), app.clock.now()
    priority = HURRIED if is_hurried else 3
    put(app, *CODES, priority=priority, remark="of the last visit", lost=1, due_at=2, created_at=1)
    stamp = hand.stamp()._replace(**({"batch": None} if is_read else {}))
    put(app, CODES[0], started_at=stamp.now + 5)
    together, apart = (take(app, kind, priority, stamp) for kind in KINDS)
    if is_disturbed:
        put(app, CODES[1], prune_at=GOES)
        put(app, CODES[2], **({"due_at": 1} if is_read else {"batch": 1}))
    terms = app.registry.get("apart").terms

    visits = settle_visits(together, terms, now=now, is_hurried=is_hurried)
    changes = [settle(row, SUCCESS, terms, now=now, turns=True) for row in apart]
    at_once = hand.write(Group(worker=hand.id, now=1, is_read=is_read, visits=[visits]))
    each = hand.write(Group(worker=hand.id, now=1, is_read=is_read, changes=changes))

    assert len(at_once) == len(each) == (4 if is_disturbed else 5)
    assert rows_of(app, "together") == rows_of(app, "apart")
    assert len(rows_of(app, "apart")) == (4 if is_disturbed else 5)
