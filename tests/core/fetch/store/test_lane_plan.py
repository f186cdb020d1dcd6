"""The statements of lanes take the index of lanes, and read as many rows as they return."""

import json

import pytest
from sqlalchemy import text

from tests.core.fetch.store.test_plan import PROBLEMS
from tests.core.ring.peer import Mate, settle
from tests.database.plan import analyze, statements
from windlass.core.fetch.lane import LaneRules, claim_foreign
from windlass.database.dialect.base import Stamp
from windlass.value.bucket import lane_at, lane_number

LANES, ROWS_OF_ONE = 60, 3_000


@pytest.fixture
def laned(app):
    @app.task(keep="1d", lane=lambda number, lane: lane)
    async def laned(number: int, lane: str) -> None: ...

    @app.task
    async def plain() -> None: ...

    calls = [{"number": number, "lane": "large"} for number in range(ROWS_OF_ONE)]
    calls += [{"number": 0, "lane": f"lane-{number}"} for number in range(LANES)]
    laned.enqueue_many(calls)
    plain.enqueue_many([{}] * 2_000)
    engine = app.database.dialect.server
    with app.database.engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(
            text(f"{analyze(engine)} windlass_task")
        )
    return laned


@pytest.mark.everywhere
def test_statements_of_lanes_use_their_index(app, laned, database_engine):
    dialect, kind = app.database.dialect, app.registry.get("laned")
    mate = Mate(app)
    settle(mate)
    lanes = [lane_number("laned", name) for name in ("large", "lane-1", "none")]
    rules = LaneRules(kind, app.clock.now(), range(2))

    def work(connection):
        assert dialect.laned_kinds(connection, ["laned", "plain"]) == {"laned"}
        places, are_all = dialect.lanes(connection, "laned", range(1 << 56), limit=1_000)
        assert are_all
        assert len(set(map(lane_at, places))) == LANES + 1
        assert len(dialect.chains(connection, "laned", lanes, most=4)) == 5
        ids = dialect.lane_rows(connection, "laned", lanes[0], status=0, limit=5)
        assert len(dialect.laned(connection, ids, is_locked=True)) == 5
        stamp = Stamp(1, mate.id, app.clock.now(), app.clock.now() + 1)
        taken, _ = claim_foreign(
            connection, dialect, rules, stamp=stamp, owners=[mate.id], limit=3, after=0
        )
        assert len(taken) == 3

    with statements(app) as caught:
        app.database.write(work)

    problems = [problem for each in caught for problem in PROBLEMS[database_engine](app, each)]
    assert problems == []


def test_finding_lanes_does_not_read_the_rows_behind_the_first(app, laned, database_engine):
    if database_engine != "postgresql":
        pytest.skip("only PostgreSQL says how many rows a plan has read")
    dialect: object = app.database.dialect
    asked = {"kind": "laned", "first": 0, "last": 1 << 57, "limit": 1_000}
    statement = text(f"explain (analyze, format json) {dialect._lanes.text}")

    with app.database.engine.connect() as connection:
        (plan,) = connection.execute(statement, asked).scalars()

    assert rows_read((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]) < 5 * LANES


def rows_read(node: dict) -> int:
    """How many rows the index scans of a plan have returned."""
    mine = node["Actual Rows"] * node["Actual Loops"] if "Index" in node["Node Type"] else 0
    return mine + sum(map(rows_read, node.get("Plans", [])))
