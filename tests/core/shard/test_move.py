"""Draining a shard, and moving what it has to the others."""

import threading

import pytest
from sqlalchemy import text, update

from tests.core.fetch.manual_worker import Hand
from tests.core.shard.fleet import declare_mail, key_for, rows, rows_of
from windlass import BadInput, DuplicateKey, Status
from windlass.clock import to_datetime
from windlass.core.shard.move import Mover
from windlass.core.shard.store import move as store
from windlass.core.task.declare import How
from windlass.database import schema
from windlass.operate.shard import operate
from windlass.value.shard import COMING, LEAVING, place_of
from windlass.value.task import Call

DEAD_AFTER = 5_000_000


pytestmark = pytest.mark.usefixtures("quick_moves")


def move(app, shard, **options):
    return operate.move(app.fleet, str(shard.index), dead_after=DEAD_AFTER, **options)


def drain(app, shard, **options):
    return operate.drain(app.fleet, str(shard.index), **options)


def total(app):
    return sum(len(found) for found in rows(app))


def test_a_drained_shard_gets_no_new_rows(sharded):
    mail, shard = declare_mail(sharded), sharded.fleet.shards[1]
    old = mail.using(key=key_for(sharded, shard, "mail")).enqueue("old")

    drain(sharded, shard)
    new = [mail.enqueue(f"m{number}") for number in range(6)]
    new += [mail.using(key=f"k{number}").enqueue("new") for number in range(20)]

    assert [row["id"] for row in rows_of(shard)] == [old.id]
    assert total(sharded) == 27


def test_a_key_that_is_in_a_drained_shard_counts_as_there(sharded, make_app):
    mail, shard = declare_mail(sharded), sharded.fleet.shards[0]
    key = key_for(sharded, shard, "mail")
    old = mail.using(key=key).enqueue("old")
    drain(sharded, shard)
    other = declare_mail(make_app(*[each.database.url for each in sharded.fleet.shards]))

    skipped = other.using(key=key).enqueue("again")
    with pytest.raises(DuplicateKey):
        other.using(key=key, on_conflict="raise").enqueue("again")
    replaced = mail.using(key=key, on_conflict="replace").enqueue("replaced")
    sharded.drain()

    assert skipped == replaced == old
    assert total(sharded) == 1
    assert old.result() == "to replaced"


def test_somebody_who_has_not_heard_of_the_draining_cannot_write_a_key_there(sharded, make_app):
    shard = sharded.fleet.shards[0]
    late = declare_mail(make_app(*[each.database.url for each in sharded.fleet.shards]))
    key = key_for(sharded, shard, "mail")
    late.enqueue("so that it knows the shards")

    drain(sharded, shard)
    here = declare_mail(sharded).using(key=key).enqueue("first")
    there = late.using(key=key).enqueue("second")

    assert there == here
    assert rows_of(shard, task_key=key) == []


def test_a_move_takes_everything_to_where_it_belongs(sharded, clock):
    mail, shard = declare_mail(sharded), sharded.fleet.shards[0]

    @sharded.rolling(every="1d")
    def level(code: str) -> str:
        return f"{code} seen"

    @sharded.cron("0 3 * * *")
    def nightly() -> None: ...

    done = mail.using(key=key_for(sharded, shard, "mail", "done")).enqueue("done")
    level.add(f"c{number}" for number in range(30))
    sharded.drain()
    later = [mail.using(delay="1h").enqueue(f"m{number}") for number in range(9)]
    keyed = [mail.using(key=f"k{number}", delay="1h").enqueue("k") for number in range(20)]
    reply = sharded.control.start("load")
    assert sharded.control.error("load", "stopped").code == 0
    visited = {code: level.item(code) for code in ("c1", "c2", "c3")}

    drain(sharded, shard)
    moved = move(sharded, shard)

    assert moved.is_done
    assert moved.moved > 0
    assert rows_of(shard) == []
    assert shard.ring not in sharded.fleet.roster.needed
    assert done.result() == "to done"
    assert {code: level.item(code) for code in visited} == visited
    assert level.freshness().total == 30
    assert sharded.control.get("load").error == "stopped"
    assert sharded.control.start("load").data["batch"] > reply.data["batch"]
    assert [ref.status() for ref in later + keyed] == [Status.WAITING] * 29
    clock.forward("2h")
    sharded.drain()
    assert [ref.result() for ref in later] == [f"to m{number}" for number in range(9)]
    assert [ref.result() for ref in keyed] == ["to k"] * 20


def test_after_a_move_the_shard_can_be_left_out(sharded, make_app):
    mail, shard = declare_mail(sharded), sharded.fleet.shards[0]
    refs = [mail.using(delay="1h", key=f"k{number}").enqueue("k") for number in range(10)]
    rest = [each.database.url for each in sharded.fleet.shards if each is not shard]

    drain(sharded, shard)
    move(sharded, shard)
    smaller = make_app(*rest)
    again = [declare_mail(smaller).using(key="k0").enqueue("again")]

    assert again == refs[:1]
    assert [smaller.ref(ref.id).status() for ref in refs] == [Status.WAITING] * 10


def test_growing_moves_the_keys_that_belong_to_the_new_shard(
    sqlite_url, make_app, second_sqlite_url
):
    alone = make_app(sqlite_url)
    mail = declare_mail(alone)

    @alone.rolling(every="1d")
    def level(code: str) -> None: ...

    old = [mail.using(key=f"k{number}", delay="1h").enqueue("k") for number in range(40)]
    free = [mail.using(delay="1h").enqueue("free") for _ in range(5)]
    level.add(f"c{number}" for number in range(40))
    grown = make_app(sqlite_url, second_sqlite_url)
    more, second = declare_mail(grown), grown.fleet.shards[1]

    @grown.rolling(every="1d", name="level")
    def bigger(code: str) -> None: ...

    none = bigger.add(["c1", "c2", "c3", "c4", "c5"])
    moved = move(grown, grown.fleet.shards[0])

    assert none == 0
    assert moved.is_done
    assert 25 <= moved.moved <= 55
    assert len(rows_of(second)) == moved.moved
    assert grown.fleet.roster.past == ()
    assert bigger.freshness().total == 40
    assert [more.using(key=f"k{number}").enqueue("k") for number in range(40)] == old
    assert [ref.status() for ref in free] == [Status.WAITING] * 5
    assert {place_of(row["id"]) for row in rows_of(second)} == {0}


def test_what_runs_is_waited_for_and_what_is_due_is_left_to_the_workers(sharded):
    mail, shard = declare_mail(sharded), sharded.fleet.shards[0]
    keys = [key_for(sharded, shard, "mail", prefix) for prefix in ("run", "due")]
    later = key_for(sharded, shard, "mail", "later")
    for key in keys:
        mail.using(key=key).enqueue("now")
    mail.using(key=later, delay="1h").enqueue("later")
    sharded.database, sharded.clock = shard.database, shard.clock
    hand = Hand(sharded)
    running = hand.claim(limit=1)
    drain(sharded, shard)

    first = move(sharded, shard, wait=False)
    hand.finish(running)
    second = move(sharded, shard, wait=False, due=True)

    assert (first.moved, first.busy) == (1, 2)
    assert second.is_done
    assert rows_of(shard) == []


def test_rows_of_a_dead_worker_are_moved_and_have_lost_a_life(sharded, clock):
    mail, shard = declare_mail(sharded), sharded.fleet.shards[0]
    ref = mail.using(key=key_for(sharded, shard, "mail")).enqueue("now")
    sharded.database = shard.database
    Hand(sharded).claim()
    clock.forward("1m")
    drain(sharded, shard)

    moved = move(sharded, shard)

    (row,) = [row for found in rows(sharded) for row in found]
    assert moved.is_done
    assert (row["id"], row["status"], row["lost"]) == (ref.id, Status.WAITING, 1)
    sharded.drain()
    assert ref.result() == "to now"


class Stopped(Exception):
    """Where a mover dies."""


# The steps that are committed, and what comes next.
STEPS = {"marked": "_finish", "copied": "_next", "left": "_arrive", "arrived": "_close"}


def die_after(monkeypatch, mover, step):
    """Let a mover die right after one of its steps has been committed."""

    def stop(*_args, **_options):
        raise Stopped

    monkeypatch.setattr(mover, STEPS[step], stop)


@pytest.mark.parametrize("step", STEPS)
def test_a_mover_that_dies_after_a_step_loses_and_doubles_nothing(
    sharded, clock, monkeypatch, step
):
    mail, shard = declare_mail(sharded), sharded.fleet.shards[0]

    @sharded.rolling(every="1d")
    def level(code: str) -> None: ...

    refs = [mail.using(delay="1h", key=f"k{number}").enqueue("k") for number in range(12)]
    level.add(f"c{number}" for number in range(12))
    drain(sharded, shard)
    dying = Mover(sharded.fleet, shard, dead_after=DEAD_AFTER)
    die_after(monkeypatch, dying, step)
    with pytest.raises(Stopped):
        dying.walk()
    seen = [ref.status() for ref in refs]
    same = [mail.using(key=f"k{number}").enqueue("again") for number in range(12)]

    moved = move(sharded, shard)

    assert moved.is_done
    assert seen == [Status.WAITING] * 12
    assert same == refs
    assert rows_of(shard) == []
    assert [row["batch"] for found in rows(sharded) for row in found] == [None] * 24
    assert level.freshness().total == 12
    assert sum_of_tally(sharded) == 12
    clock.forward("2h")
    sharded.drain()
    assert [ref.result() for ref in refs] == ["to k"] * 12


ACTS = ("cancel", "replace", "hurry", "remove")


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("step", STEPS)
def test_who_acts_on_a_row_that_is_on_its_way_has_the_last_word(
    sqlite_url, make_app, second_sqlite_url, clock, monkeypatch, step, act
):
    app = make_app(sqlite_url, second_sqlite_url)
    mail, shard = declare_mail(app), app.fleet.shards[0]

    @app.rolling(every="1d")
    def level(code: str) -> None: ...

    key, code = key_for(app, shard, "mail"), key_for(app, shard, "level")
    ref = mail.using(key=key, delay="1h").enqueue("old")
    level.add([code])
    app.drain()
    drain(app, shard)
    dying = Mover(app.fleet, shard, dead_after=DEAD_AFTER)
    die_after(monkeypatch, dying, step)
    with pytest.raises(Stopped):
        dying.walk()

    match act:
        case "cancel":
            assert ref.cancel("no more")
        case "replace":
            mail.using(key=key, delay="1h", on_conflict="replace").enqueue("new")
        case "hurry":
            level.add([code], now=True)
        case "remove":
            level.remove([code])
    moved = move(app, shard)

    assert moved.is_done
    assert [row["batch"] for found in rows(app) for row in found if row["batch"]] == []
    assert len(rows(app, kind="mail")[1]) == 1
    assert rows_of(shard) == []
    match act:
        case "cancel":
            assert ref.status() is Status.CANCELLED
        case "replace":
            clock.forward("2h")
            app.drain()
            assert ref.result() == "to new"
        case "hurry":
            assert level.item(code).due_at <= to_datetime(clock.now())
        case "remove":
            assert level.item(code) is None
    assert sum_of_tally(app) == (0 if act == "remove" else 1)


def test_a_row_that_was_changed_while_it_moved_is_moved_in_the_next_pass(
    sqlite_url, make_app, second_sqlite_url, monkeypatch
):
    app = make_app(sqlite_url, second_sqlite_url)
    mail, shard = declare_mail(app), app.fleet.shards[0]
    key = key_for(app, shard, "mail")
    mail.using(key=key, delay="1h").enqueue("old")
    drain(app, shard)
    put, replaced = store.put, []

    def replace_when_copied(*args, **options):
        refused = put(*args, **options)
        if not replaced:
            how = mail.using(key=key, delay="1h", on_conflict="replace")
            replaced.append(how.enqueue("new"))
        return refused

    monkeypatch.setattr(store, "put", replace_when_copied)

    moved = move(app, shard)

    # Had the first pass counted as clean, nobody would look for the key here any more.
    assert replaced
    assert moved.is_done
    assert rows_of(shard) == []
    assert [row["task_key"] for found in rows(app) for row in found] == [key]


@pytest.mark.parametrize("is_touched", [True, False])
@pytest.mark.parametrize("step", ["copied", "left"])
def test_a_copy_is_nobodys_when_the_shards_change_again_under_a_mover(
    sqlite_url, make_app, second_sqlite_url, clock, monkeypatch, step, is_touched
):
    app = make_app(sqlite_url, second_sqlite_url)
    mail, shard = declare_mail(app), app.fleet.shards[0]

    @app.rolling(every="1d")
    def level(code: str) -> None: ...

    key, code = key_for(app, shard, "mail"), key_for(app, shard, "level")
    ref = mail.using(key=key, delay="1h").enqueue("old")
    level.add([code])
    replacing = mail.using(key=key, delay="1h", on_conflict="replace")
    drain(app, shard)
    mover = Mover(app.fleet, shard, dead_after=DEAD_AFTER, due=True)
    following, busy = getattr(mover, STEPS[step]), []

    def write() -> None:
        replacing.enqueue("new")
        level.add([code], now=True)

    def meanwhile(*args):
        if not busy:
            if is_touched:
                replacing.enqueue("touched")
            app.fleet.change(lambda roster: roster.opened(shard.ring))
            # What has left home and not arrived is waited for.
            busy.append(threading.Thread(target=write))
            busy[0].start()
            busy[0].join(1.0 if step == "copied" else 0.1)
        return following(*args)

    monkeypatch.setattr(mover, STEPS[step], meanwhile)

    mover.walk()
    busy[0].join(10.0)

    held = [row for found in rows(app) for row in found]
    assert sorted(row["task_key"] for row in held) == sorted([key, code])
    assert {row["batch"] for row in held} == {None}
    assert sum_of_tally(app) == 1
    clock.forward("2h")
    app.drain()
    assert ref.result() == "to new"


@pytest.mark.parametrize("step", STEPS)
def test_a_mover_that_was_stopped_and_wakes_up_late_does_nothing(
    sqlite_url, make_app, second_sqlite_url, clock, monkeypatch, step
):
    app = make_app(sqlite_url, second_sqlite_url)
    shard, ran = app.fleet.shards[0], []

    @app.task(keep="0s")
    def mail(to: str) -> None:
        ran.append(to)

    refs = [
        mail.using(key=key_for(app, shard, "mail", f"k{number}"), delay="1h").enqueue(f"k{number}")
        for number in range(5)
    ]
    drain(app, shard)
    slow = Mover(app.fleet, shard, dead_after=DEAD_AFTER)
    original, asleep = getattr(slow, STEPS[step]), []

    def sleep_first(*args, **options):
        if not asleep:
            asleep.append(step)
            assert move(app, shard).is_done
            clock.forward("2h")
            app.drain()
        return original(*args, **options)

    monkeypatch.setattr(slow, STEPS[step], sleep_first)

    slow.walk()

    assert asleep == [step]
    assert rows_of(shard) == []
    # They ran and are gone, and nobody brought them back.
    assert rows(app)[1] == []
    assert sorted(ran) == [f"k{number}" for number in range(5)]
    assert [ref.status() for ref in refs] == [Status.SUCCEEDED] * 5


def test_undoing_a_drain_gives_back_what_a_dead_mover_left_on_its_way(sharded, clock, monkeypatch):
    mail, shard = declare_mail(sharded), sharded.fleet.shards[0]
    ref = mail.using(key=key_for(sharded, shard, "mail"), delay="1h").enqueue("k")
    drain(sharded, shard)
    dying = Mover(sharded.fleet, shard, dead_after=DEAD_AFTER)
    die_after(monkeypatch, dying, "copied")
    with pytest.raises(Stopped):
        dying.walk()

    drain(sharded, shard, undo=True)

    assert [row["batch"] for row in rows_of(shard)] == [None]
    assert total(sharded) == 1
    clock.forward("2h")
    sharded.drain()
    assert ref.result() == "to k"
    assert move(sharded, shard).is_done
    assert move(sharded, sharded.fleet.shards[1]).is_done


def test_a_key_that_is_taken_elsewhere_is_not_lost_but_told(sharded, clock):
    mail, shard = declare_mail(sharded), sharded.fleet.shards[0]
    key = key_for(sharded, shard, "mail")
    mine = mail.using(key=key, delay="1h").enqueue("mine")
    drain(sharded, shard)
    home = sharded.fleet.home("mail", key)
    kind = sharded.registry.get("mail")
    home.enqueue.submit(kind, [Call(("theirs",), {}, key)], How(key=key))

    moved = move(sharded, shard)

    assert not moved.is_done
    assert moved.stuck == [f"mail {key}"]
    assert [row["id"] for row in rows_of(shard)] == [mine.id]
    assert rows_of(shard)[0]["batch"] is None


def test_negative_numbers_of_triggers_are_renumbered(sharded):
    shard = sharded.fleet.shards[0]

    @sharded.rolling(every="1d")
    def level(code: str) -> None: ...

    code = key_for(sharded, shard, "level")
    level.add([code])
    task = schema.task
    shard.database.write(lambda connection: connection.execute(update(task).values(id=-7)))

    drain(sharded, shard)
    move(sharded, shard)

    (row,) = [row for found in rows(sharded) for row in found]
    assert row["task_key"] == code
    assert place_of(row["id"]) == sharded.fleet.home("level", code).look().place


def test_a_shard_that_is_lost_is_given_up(sharded, make_app):
    mail, shard = declare_mail(sharded), sharded.fleet.shards[0]
    key = key_for(sharded, shard, "mail")
    mail.using(key=key).enqueue("lost")
    rest = [each.database.url for each in sharded.fleet.shards[1:]]

    drain(sharded, shard, lost=True)
    smaller = make_app(*rest)
    ref = declare_mail(smaller).using(key=key).enqueue("again")

    smaller.drain()
    assert ref.result() == "to again"


def test_an_app_with_one_database_has_nothing_to_drain(sqlite_url, make_app):
    with pytest.raises(BadInput, match="one database"):
        operate.drain(make_app(sqlite_url).fleet, "1")


def test_no_worker_takes_a_row_that_is_on_its_way(sharded):
    mail, shard, task = declare_mail(sharded), sharded.fleet.shards[0], schema.task
    batches = {
        mail.using(key=key_for(sharded, shard, "mail", f"k{batch}")).enqueue("no").id: batch
        for batch in (LEAVING, COMING)
    }
    with shard.database.engine.begin() as connection:
        for number, batch in batches.items():
            connection.execute(update(task).where(task.c.id == number).values(batch=batch))

    assert Hand(sharded).claim(limit=10) == []
    assert {row["id"]: row["batch"] for row in rows_of(shard)} == batches


def sum_of_tally(app):
    return sum(
        shard.database.read(
            lambda connection: connection.scalar(
                text("select coalesce(sum(delta), 0) from windlass_tally")
            )
        )
        for shard in app.fleet.shards
    )


def test_the_rows_of_a_shard_are_read_page_by_page(sharded, monkeypatch):
    monkeypatch.setattr("windlass.core.shard.move.PAGE", 7)
    monkeypatch.setattr("windlass.core.shard.move.BATCH", 3)
    mail = declare_mail(sharded)
    refs = mail.using(delay="1h").enqueue_many([{"to": f"m{number}"} for number in range(30)])
    held = [each for each in sharded.fleet.shards if rows_of(each)]
    drain(sharded, held[0])

    assert move(sharded, held[0]).moved == 30
    assert [ref.status() for ref in refs] == [Status.WAITING] * 30
