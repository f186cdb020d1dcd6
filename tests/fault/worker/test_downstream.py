"""Worker processes keep the limits of what they call: counted by the server that is called."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.core.limit.pace import check_never_above
from tests.fault.crew import Crew, ids_of
from tests.fault.worker.called import MODULE, Server, make_app
from tests.wait import eventually

CONCURRENCY = 5


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def serve(crew: Crew, server: Server, calls: int, seconds: float, **limits: object) -> list[int]:
    """Let the crew serve an app that calls the server so often; the ids of its tasks."""
    module = MODULE.format(url=crew.url, port=server.port, limits=limits)
    (crew.folder / "served.py").write_text(module)
    app, kinds = make_app(crew.url, server.port, limits)
    with closing(app):
        each = [{"seconds": seconds}] * (calls // len(kinds))
        return [number for kind in kinds for number in ids_of(kind.enqueue_many(each))]


def check_kills_and_joins(crew: Crew, server: Server, ids: list[int], *, kills: int) -> None:
    crew.start_many(4)
    for turn in range(kills):
        eventually(lambda turn=turn: len(server.log) > 20 * (turn + 1), 60)
        crew.processes[turn].kill()
        crew.start()
    crew.wait_done(ids, 120)


def test_processes_that_die_and_join_never_exceed_a_concurrency(postgresql_crew, server):
    ids = serve(postgresql_crew, server, 120, 0.02, concurrency=CONCURRENCY)

    check_kills_and_joins(postgresql_crew, server, ids, kills=1)

    assert server.peak <= CONCURRENCY
    assert len(server.log) >= len(ids)


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 3, 20])
def test_a_concurrency_is_exact_on_every_database(crew, server, concurrency):
    ids = serve(crew, server, 600, 0.02, concurrency=concurrency)

    check_kills_and_joins(crew, server, ids, kills=3)

    assert server.peak <= concurrency


@pytest.mark.slow
@pytest.mark.parametrize("rate", [20, 200])
def test_a_rate_is_kept_on_every_database(crew, server, rate):
    ids = serve(crew, server, rate * 10, 0.0, rate=f"{rate}/s", concurrency=20)

    check_kills_and_joins(crew, server, ids, kills=2)

    check_never_above([entry.began for entry in server.log], rate)
    assert server.peak <= 20
