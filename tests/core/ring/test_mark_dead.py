"""A worker that stopped in the middle of something is marked dead, on servers.

SQLite is left out: there one that writes keeps out everybody, and nobody can help that.
"""

import threading
import time

import pytest
from sqlalchemy import event, insert, update

from tests.core.ring import silent
from tests.core.ring.peer import Mate
from tests.wait import eventually
from windlass import App
from windlass.app import FACES
from windlass.clock import SECOND
from windlass.database.schema import offer, worker


@pytest.fixture
def app(server_url):
    # A mate never leaves: the guard of this process would keep it alive after its test.
    app = App(server_url, dead_after="2s", guard=False)

    @app.task(keep="1h")
    async def step() -> None: ...

    yield app
    app.close()


@pytest.fixture
def other(app):
    """Another process, as far as the database can tell, and a patient one."""
    other = App(app.database.url)
    yield other
    other.close()


class Stopped:
    """A thread that stops for as long as the block lasts, where it has just run a statement."""

    def __init__(self, app: App, work, *, after: str) -> None:
        self._app = app
        self._after = after.lower()
        self._reached, self._go_on = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)

    def __enter__(self) -> None:
        for engine in self._app.database.engines:
            event.listen(engine, "after_cursor_execute", self._on_statement)
        self._thread.start()
        assert self._reached.wait(20), "it never ran that statement"

    def __exit__(self, *_: object) -> None:
        self._go_on.set()
        self._thread.join(20)
        for engine in self._app.database.engines:
            event.remove(engine, "after_cursor_execute", self._on_statement)

    def _on_statement(self, _connection, _cursor, statement, *_: object) -> None:
        if threading.current_thread() is self._thread and self._after in statement.lower():
            self._reached.set()
            self._go_on.wait(60)

    @staticmethod
    def _run(work) -> None:
        try:
            work()
        except Exception as problem:  # noqa: BLE001 - the server may have cut it off meanwhile
            del problem


def check_marked_dead_soon(app: App, number: int) -> None:
    began = time.monotonic()
    eventually(lambda: mark_dead(app, number) is not None, what="a worker that is marked dead")
    assert time.monotonic() - began < 10.0


def mark_dead(app: App, number: int) -> int | None:
    late = app.clock.now() + 60 * SECOND
    return silent.mark_dead(app.database, FACES, number=number, now=late, why="silent")


@pytest.mark.parametrize("after", ["update windlass_worker", "from windlass_worker"])
def test_a_worker_that_stops_anywhere_in_its_beat_can_be_marked_dead_soon(app, other, after):
    mate = Mate(app)

    with Stopped(app, mate.beat, after=after):
        check_marked_dead_soon(other, mate.id)


def test_a_worker_that_stops_while_it_writes_many_rows_can_be_marked_dead_soon(app, other):
    mate = Mate(app)
    rows = [{"task_id": number, "kind": "step", "due_at": number} for number in range(3)]

    def work(connection) -> None:
        assert app.database.dialect.alive(connection, mate.id)
        connection.execute(insert(offer), rows)

    with Stopped(app, lambda: app.database.write(work), after="insert into windlass_offer"):
        check_marked_dead_soon(other, mate.id)


def test_marking_a_worker_dead_is_put_off_if_it_would_wait_for_long(app, other):
    mate = Mate(app)
    row = update(worker).where(worker.c.id == mate.id).values(idle=1)

    def hold() -> None:
        other.database.write(lambda connection: connection.execute(row))

    with Stopped(other, hold, after="update windlass_worker"):
        began = time.monotonic()
        # Whoever waited would give no sign of life meanwhile, and soon be taken for dead itself.
        assert mark_dead(app, mate.id) is None
        assert time.monotonic() - began < 4.0

    # The transaction that was stopped needs a moment to end.
    eventually(lambda: mark_dead(app, mate.id) == 0, 10.0, what="the death")
