"""Flows over several shards: a run lives in one of them, whole, and is found wherever it is."""

from types import SimpleNamespace

import pytest

import windlass
from tests.core.shard.fleet import key_for, rows_of
from tests.external.test_external import Spark
from windlass import Status
from windlass.core.shard.move import Mover
from windlass.core.shard.store import move as store
from windlass.database import schema
from windlass.operate.shard import operate

pytestmark = pytest.mark.usefixtures("quick_moves")


def move(app, shard, **options):
    return operate.move(app.fleet, str(shard.index), dead_after=5_000_000, **options)


def drain(app, shard):
    return operate.drain(app.fleet, str(shard.index))


def shard_of(app, run):
    """The one shard that has rows of a run."""
    (shard,) = [shard for shard in app.fleet.shards if rows_of(shard, flow_id=run.id)]
    return shard


@pytest.fixture
def yard(sharded):
    """A flow of which one node fails until `is_broken` is False."""

    yard = SimpleNamespace(is_broken=True, seen=[])

    @sharded.task
    def note(name: str) -> str:
        yard.seen.append(name)
        return name

    @sharded.task
    def fragile(name: str) -> None:
        if yard.is_broken:
            raise ValueError("not today")
        yard.seen.append(name)

    @sharded.flow
    def line(flow):
        first = flow.add(note, "first", name="first")
        second = flow.add(fragile, first.result, after=first, name="second")
        flow.add(note, "third", after=second, name="third")

    yard.line, yard.note = line, note
    return yard


def test_runs_are_spread_and_each_is_found_by_its_id(sharded, yard):
    runs = [yard.line.start() for _ in range(6)]
    places = {shard_of(sharded, run).index for run in runs}
    sharded.drain()
    refs = [sharded.flows.ref(run.id) for run in runs]

    assert places == {shard.index for shard in sharded.fleet.shards}
    assert [ref.status() for ref in refs] == [Status.FAILED] * 6
    assert {run.id for run in sharded.flows.runs()} == {run.id for run in runs}

    yard.is_broken = False
    for ref in refs[:3]:
        assert ref.retry() == 2
    for ref in refs[3:]:
        ref.skip("second")
    sharded.drain()
    assert [ref.status() for ref in refs] == [Status.SUCCEEDED] * 6
    assert all(len(rows_of(shard_of(sharded, run), flow_id=run.id)) == 4 for run in runs)
    with pytest.raises(windlass.UnknownFlow, match="no run 123"):
        sharded.flows.ref(123)


def test_a_run_is_cancelled_and_edited_in_whichever_shard_it_is(sharded, yard):
    cancelled, edited = [yard.line.start() for _ in range(3)], [yard.line.start() for _ in range(3)]

    for run in cancelled:
        assert run.cancel("no more")
    for run in edited:
        run.edit(lambda edit: edit.add(yard.note, "more", after="first", name="more"))
    sharded.drain()

    assert [run.status() for run in cancelled] == [Status.CANCELLED] * 3
    assert yard.seen.count("more") == 3


def test_a_key_starts_one_run_over_all_shards(sharded, yard):
    runs = [yard.line.using(key=f"order-{number}").start() for number in range(8)]
    again = [yard.line.using(key=f"order-{number}").start() for number in range(8)]

    assert [run.id for run in again] == [run.id for run in runs]
    assert len({shard_of(sharded, run).index for run in runs}) > 1


def test_a_schedule_starts_one_run_for_each_turn(sharded, clock):
    @sharded.task
    def step() -> None: ...

    @sharded.flow(cron="0 * * * *")
    def hourly(flow):
        flow.add(step)

    sharded.drain()
    clock.forward("1h")
    sharded.drain()
    sharded.drain()

    assert [run.status for run in sharded.flows.runs()] == [Status.SUCCEEDED]


def test_a_run_that_is_under_way_ends_where_it_is_and_is_then_moved_whole(sharded, yard):
    shard = sharded.fleet.shards[0]
    run = yard.line.using(key=key_for(sharded, shard, "line")).start()
    drain(sharded, shard)

    held = move(sharded, shard, wait=False)
    assert (held.is_done, held.busy) == (False, 1)
    assert shard_of(sharded, run) is shard
    sharded.drain()
    before, graph = run.nodes(), run.graph()
    moved = move(sharded, shard)

    assert moved.is_done
    assert rows_of(shard) == []
    assert shard_of(sharded, run) is not shard
    assert (run.nodes(), run.graph()) == (before, graph)
    assert not shard.database.read(lambda c: c.execute(schema.slot.select()).all())
    yard.is_broken = False
    assert run.retry() == 2
    sharded.drain()
    assert run.status() is Status.SUCCEEDED
    assert yard.seen == ["first", "first", "third"]


def test_a_run_that_goes_on_while_it_is_on_its_way_stays(sharded, yard, monkeypatch):
    shard = sharded.fleet.shards[0]
    run = yard.line.using(key=key_for(sharded, shard, "line")).start()
    sharded.drain()
    yard.is_broken = False
    drain(sharded, shard)
    put = store.put

    def put_and_retry(*args, **options):
        monkeypatch.setattr(store, "put", put)
        refused = put(*args, **options)
        run.retry()
        return refused

    monkeypatch.setattr(store, "put", put_and_retry)
    Mover(sharded.fleet, shard, dead_after=5_000_000).walk()

    assert shard_of(sharded, run) is shard
    sharded.drain()
    assert run.status() is Status.SUCCEEDED
    assert move(sharded, shard).is_done
    assert len(rows_of(shard_of(sharded, run), flow_id=run.id)) == 4


STEPS = {"marked": "_finish", "copied": "_next", "left": "_arrive", "arrived": "_close"}


class Stopped(Exception):
    """Where a mover dies."""


@pytest.mark.parametrize("step", STEPS)
def test_a_mover_that_dies_after_a_step_leaves_every_run_whole(sharded, yard, monkeypatch, step):
    shard = sharded.fleet.shards[0]
    run = yard.line.using(key=key_for(sharded, shard, "line")).start()
    sharded.drain()
    before = run.nodes()
    drain(sharded, shard)
    dying = Mover(sharded.fleet, shard, dead_after=5_000_000)

    def stop(*_args, **_options):
        raise Stopped

    monkeypatch.setattr(dying, STEPS[step], stop)
    with pytest.raises(Stopped):
        dying.walk()

    assert run.nodes() == before
    assert move(sharded, shard).is_done
    assert run.nodes() == before
    assert rows_of(shard) == []


def test_an_external_task_is_moved_with_its_handle_and_its_secret(sharded, clock):
    system = Spark()
    spark = sharded.external("spark", system, every="5s", retries=1, backoff="1h")
    shard = sharded.fleet.shards[0]
    ref = spark.using(key=key_for(sharded, shard, "spark")).enqueue("load")
    sharded.drain()
    drain(sharded, shard)
    assert move(sharded, shard, wait=False).busy == 1

    # It failed over there, and waits for its second submission.
    sharded.notify(ref, ok=False, reason="no space left")
    assert move(sharded, shard).is_done
    clock.forward("2h")
    sharded.drain()

    assert [submission for submission, _ in system.submitted] == [str(ref.id), f"{ref.id}-2"]
    assert sharded.notify(f"handle-{ref.id}-2", ok=True, result=5)
    assert not sharded.notify(ref, ok=False)
    assert ref.result(timeout=1) == 5
