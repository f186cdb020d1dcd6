"""The guard of this process: what it renews, what it does not, and what it leaves behind."""

import os
import time
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select, update

from tests.core.fetch.manual_worker import Hand
from tests.server.process import free_port
from tests.wait import eventually
from windlass import telemetry
from windlass.clock import SECOND
from windlass.core.ring import guard as guards
from windlass.core.ring import store as ring_store
from windlass.core.ring.guard import SHARED, Guard, Ward
from windlass.core.ring.guard_process import BILLION, PARENT_AT, connect, is_running
from windlass.database.database import Database
from windlass.database.schema import worker

BEAT = 0.1


@pytest.fixture
def events():
    told = []
    stop = telemetry.subscribe(told.append)
    yield told
    stop()


@pytest.fixture
def ward_of(app):
    """Makes a ward for each worker, and lets all of them go at the end."""
    made = []

    def make() -> Ward:
        made.append(Ward(app.database, beat_seconds=BEAT, patience=0.0))
        return made[-1]

    yield make
    for ward in made:
        ward.close()
    assert SHARED._helper is None


def tell(ward: Ward, hand: Hand, lease_until: int, at: float | None = None) -> None:
    """What its heartbeat says when it has renewed."""
    ward.renewed(hand.id, lease_until=lease_until, at=time.monotonic() if at is None else at)


def row(app, hand):
    query = select(worker.c.lease_until, worker.c.idle).where(worker.c.id == hand.id)
    return app.database.read(lambda connection: connection.execute(query).one())


def test_a_heartbeat_that_is_late_is_made_up_for_again_and_again(app, ward_of):
    hand, ward = Hand(app), ward_of()
    first = row(app, hand).lease_until
    began = time.monotonic()

    tell(ward, hand, first, began)

    renewed = eventually(lambda: ward.renewed_at, 30.0, what="a renewal by the guard")
    again = eventually(lambda: ward.renewed_at > renewed and ward.renewed_at, what="another one")
    lease_until, idle = row(app, hand)
    assert idle == ring_store.GUARDED
    assert lease_until >= first + int((again - began) * SECOND) - 1
    assert app.database.read(ring_store.workers)[0].idle == 0


def test_a_renewal_by_the_guard_never_takes_back_a_later_one(app, ward_of):
    hand, how = Hand(app), ward_of().how()
    later = row(app, hand).lease_until + SECOND

    with closing(connect(how)) as connection:
        cursor = connection.cursor()
        counts = []
        for until in (later, later - 1):
            cursor.execute(how["renew"], (until, hand.id, until))
            counts.append(cursor.rowcount)

    assert counts == [1, 0]
    assert row(app, hand) == (later, ring_store.GUARDED)


def test_a_worker_that_was_marked_left_is_not_brought_back(app, ward_of):
    gone, alive = Hand(app), Hand(app)
    leave = update(worker).where(worker.c.id == gone.id).values(left_at=1)
    app.database.write(lambda connection: connection.execute(leave))
    before = row(app, gone)
    wards = ward_of(), ward_of()

    for ward, hand in zip(wards, (gone, alive), strict=True):
        tell(ward, hand, before.lease_until)

    eventually(lambda: wards[1].renewed_at, 30.0, what="a renewal of the other")
    first = wards[1].renewed_at
    eventually(lambda: wards[1].renewed_at > first, what="another one")
    assert wards[0].renewed_at == 0
    assert row(app, gone) == before


def test_a_heartbeat_that_is_stuck_while_other_code_runs_is_not_made_up_for(app, ward_of):
    stuck, alive = Hand(app), Hand(app)
    wards = ward_of(), ward_of()
    before, now = row(app, stuck), time.monotonic()

    tell(wards[1], alive, before.lease_until)
    wards[1].pulse()
    tell(wards[0], stuck, before.lease_until, now - 61.0)

    eventually(lambda: wards[1].renewed_at, 30.0, what="a renewal of the other")
    first = wards[1].renewed_at
    eventually(lambda: wards[1].renewed_at > first, what="another one")
    assert SHARED.memory[PARENT_AT] / BILLION >= now
    assert wards[0].renewed_at == 0
    assert row(app, stuck) == before


def test_all_workers_of_a_process_have_one_guard_which_ends_with_the_last_of_them(app, events):
    first, second = (Ward(app.database, beat_seconds=BEAT, patience=0.0) for _ in range(2))
    hands = Hand(app), Hand(app)
    for ward, hand in zip((first, second), hands, strict=True):
        tell(ward, hand, row(app, hand).lease_until)
    pid = SHARED._helper.process.pid

    first.close()
    assert Path(f"/proc/{pid}").exists()
    second.close()

    assert not Path(f"/proc/{pid}").exists()
    assert [event.fields["pid"] for event in events if event.name == "guard.started"] == [pid]


def test_a_heartbeat_that_hung_while_its_worker_ended_starts_no_guard(app, ward_of, events):
    hand, ward = Hand(app), ward_of()
    tell(ward, hand, row(app, hand).lease_until)
    ward.end()

    tell(ward, hand, row(app, hand).lease_until)

    assert ward.slot is None
    assert SHARED._helper is None
    assert [event.name for event in events if event.name.startswith("guard")] == ["guard.started"]


def test_a_guard_tells_at_once_that_it_cannot_connect_and_no_password_is_seen(app, events):
    broken = Database(f"postgresql://someone:s3cret@127.0.0.1:{free_port()}/nothing")
    ward = Ward(broken, beat_seconds=BEAT, patience=0.0)
    hand = Hand(app)

    def failed() -> list[str]:
        ward.renewed(hand.id, lease_until=0, at=time.monotonic())
        return [event.fields["error"] for event in events if event.name == "guard.failed"]

    try:
        errors = eventually(failed, 30.0, what="an error that is told")
        pid = SHARED._helper.process.pid
        seen = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
    finally:
        ward.close()
        broken.close()

    assert "OperationalError" in errors[0]
    assert "s3cret" not in "".join(errors)
    assert b"s3cret" not in seen


def test_a_guard_that_cannot_be_started_is_told_and_tried_again(app, events, monkeypatch, ward_of):
    hand, ward = Hand(app), ward_of()
    monkeypatch.setattr(guards, "FIRST_PAUSE", 0.0)
    SHARED._pause = 0.0
    with monkeypatch.context() as patch:
        patch.setattr(guards.sys, "executable", "/nowhere/python")
        tell(ward, hand, 0)
    assert [event.name for event in events] == ["guard.failed"]
    assert ward.renewed_at == 0

    tell(ward, hand, 0)

    assert [event.name for event in events] == ["guard.failed", "guard.started"]


def test_a_forked_child_has_no_guard_and_leaves_that_of_its_parent_alone(app, ward_of):
    hand, ward = Hand(app), ward_of()
    tell(ward, hand, row(app, hand).lease_until)
    eventually(lambda: ward.renewed_at, 30.0, what="a renewal by the guard")

    child = os.fork()
    if not child:
        is_free = SHARED._helper is None and not any(SHARED.memory)
        os._exit(0 if is_free else 1)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    first = ward.renewed_at
    eventually(lambda: ward.renewed_at > first, what="another renewal")


@pytest.mark.parametrize("name", ["frozen", "executable"])
def test_where_python_cannot_be_started_there_is_no_guard(app, monkeypatch, name):
    monkeypatch.setattr(guards.sys, name, name == "frozen", raising=False)
    ward = Ward(app.database, beat_seconds=BEAT, patience=0.0)

    tell(ward, Hand(app), 0)

    assert ward.slot is None
    assert SHARED._helper is None


def test_a_drain_that_is_soon_over_starts_no_guard(database_url, events, app):
    app.drain()

    assert [event.name for event in events if event.name.startswith("guard")] == []


def test_only_a_parent_that_runs_is_running():
    assert is_running(os.getppid())
    assert not is_running(os.getpid())
    assert Guard().memory.tolist() == [0] * 512
