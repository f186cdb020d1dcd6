"""Downstreams that adapt, with worker processes and a real HTTP server whose capacity changes."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.fault.crew import Crew
from tests.fault.worker.asking import CEILING, CONCURRENCY, FLOOR, MODULE, make_app
from tests.server.limited import Bears, LimitedServer
from tests.table import count, failures, tasks
from tests.wait import eventually
from windlass import App
from windlass.core.limit.permit import store as permit_store
from windlass.core.limit.permit.store import LimitNow
from windlass.database import schema

pytestmark = pytest.mark.slow
TASKS = 6_000
PATIENCE_SECONDS = 70.0


@pytest.fixture
def server() -> Iterator[LimitedServer]:
    with LimitedServer(Bears(per_second=15.0)) as server:
        yield server


class Watch:
    """What the limits of the fleet are now, and everything that they were when it looked."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.seen: list[LimitNow] = []

    @property
    def rate(self) -> float:
        now = self._app.database.read(permit_store.lowered).get("server")
        if now is None:
            return CEILING * 0.125
        self.seen.append(now)
        assert now.rate is not None
        return now.rate


def refused(server: LimitedServer) -> int:
    return sum(call.is_refused for call in server.log)


@pytest.mark.mostly("sqlite")
def test_the_limits_of_a_fleet_follow_what_a_server_refuses(crew: Crew, server):
    (crew.folder / "served.py").write_text(MODULE.format(url=crew.url, address=server.url))
    app, kinds = make_app(crew.url, server.url)
    with closing(app):
        for kind in kinds:
            kind.enqueue_many([{}] * TASKS)
        watch = Watch(app)

        crew.start_many(2)
        eventually(lambda: refused(server), PATIENCE_SECONDS)
        eventually(lambda: watch.rate < 30.0, PATIENCE_SECONDS)
        server.change(Bears(per_second=5.0))
        eventually(lambda: watch.rate < 9.0, PATIENCE_SECONDS)
        server.change(Bears(per_second=10 * CEILING))
        eventually(lambda: watch.rate > 15.0, PATIENCE_SECONDS)

        limits = [each.rate for each in watch.seen if each.rate is not None]
        assert min(limits) >= FLOOR
        assert max(limits) <= CEILING
        assert all((each.concurrency or 0) in range(1, CONCURRENCY + 1) for each in watch.seen)
        assert count(app, schema.adapt) == 1
        # A refused call is neither an attempt nor a failure.
        assert failures(app) == []
        put_off = [row for row in tasks(app) if row["remark"]]
        assert put_off
        assert max(row["attempt"] for row in put_off) <= 1
