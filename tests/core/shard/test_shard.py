"""Several databases as one: places, numbers and homes."""

import asyncio
import itertools
import json
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.core.shard.fleet import declare_mail, key_for, places, row_of, rows
from windlass import App, BadConnection, BadDatabase, BadSource, DuplicateKey, Status, Table
from windlass.operate.shard import operate
from windlass.value.shard import place_of


def test_each_shard_gets_a_place_once_and_numbers_that_begin_with_it(sharded, make_app):
    mail = declare_mail(sharded)

    refs = [mail.enqueue(f"m{number}") for number in range(6)]

    assert sorted(places(sharded)) == list(range(len(sharded.fleet.shards)))
    for shard, found in zip(sharded.fleet.shards, rows(sharded), strict=True):
        assert found
        assert {place_of(row["id"]) for row in found} == {row_of(shard).place}
    assert len({ref.id for ref in refs}) == 6
    again = make_app(*reversed([shard.database.url for shard in sharded.fleet.shards]))
    assert places(again) == list(reversed(places(sharded)))


def test_rows_without_a_key_take_turns_and_many_of_one_call_stay_together(sharded):
    mail = declare_mail(sharded)

    for number in range(2 * len(sharded.fleet.shards)):
        mail.enqueue(f"m{number}")
    single = [len(found) for found in rows(sharded)]
    many = mail.enqueue_many([{"to": f"n{number}"} for number in range(50)])

    assert single == [2] * len(sharded.fleet.shards)
    assert sorted(len(found) for found in rows(sharded))[-1] == 52
    assert len({place_of(ref.id) for ref in many}) == 1


def test_a_key_has_one_home_for_all_processes_and_is_unique_there(sharded, make_app):
    mail, other = declare_mail(sharded), declare_mail(make_app(*_urls(sharded)))

    refs = [mail.using(key=f"k{number}").enqueue("a") for number in range(20)]
    same = [other.using(key=f"k{number}").enqueue("b") for number in range(20)]

    assert same == refs
    assert sum(len(found) for found in rows(sharded)) == 20
    assert all(found for found in rows(sharded))
    with pytest.raises(DuplicateKey):
        other.using(key="k3", on_conflict="raise").enqueue("c")


def test_a_task_is_found_waited_for_and_cancelled_wherever_it_is(sharded):
    mail = declare_mail(sharded)
    refs = [mail.enqueue(f"m{number}") for number in range(6)]

    cancelled = refs[5].cancel("changed my mind")
    sharded.drain()

    assert cancelled
    assert [ref.result() for ref in refs[:5]] == [f"to m{number}" for number in range(5)]
    assert [ref.status() for ref in refs] == [Status.SUCCEEDED] * 5 + [Status.CANCELLED]
    assert sharded.ref(refs[2].id).result() == "to m2"


def test_many_keys_over_several_shards_are_written_all_or_not_at_all(sharded):
    mail = declare_mail(sharded)
    taken = key_for(sharded, sharded.fleet.shards[-1], "mail", "taken")
    mail.using(key=taken).enqueue("first")
    keys = [f"k{number}" for number in range(30)]

    with pytest.raises(DuplicateKey):
        mail.using(on_conflict="raise").enqueue_many(
            [{"to": key} for key in [*keys, taken]], keys=[*keys, taken]
        )
    refused = sum(len(found) for found in rows(sharded))
    refs = mail.enqueue_many([{"to": key} for key in [*keys, taken]], keys=[*keys, taken])

    assert refused == 1
    assert len({ref.id for ref in refs}) == 31
    sharded.drain()
    assert [ref.result() for ref in refs] == [f"to {key}" for key in keys] + ["to first"]


def test_what_was_written_is_taken_back_when_a_later_shard_refuses(sharded, monkeypatch):
    mail = declare_mail(sharded)
    first, second = sharded.fleet.shards[:2]
    old = mail.using(key=key_for(sharded, first, "mail")).enqueue("old")
    keys = [key_for(sharded, shard, "mail", prefix) for shard in (first, second) for prefix in "ab"]
    keys = [*keys, key_for(sharded, first, "mail")]
    monkeypatch.setattr(second.enqueue, "submit", _refuse)

    with pytest.raises(RuntimeError):
        mail.enqueue_many([{"to": key} for key in keys], keys=keys)

    assert [row["id"] for row in rows(sharded)[0]] == [old.id]
    assert sum(len(found) for found in rows(sharded)) == 1


def test_a_transaction_of_the_caller_decides_the_shard(sharded):
    mail = declare_mail(sharded)
    last = sharded.fleet.shards[-1]
    mine = key_for(sharded, last, "mail")
    elsewhere = key_for(sharded, sharded.fleet.shards[0], "mail")

    engine = create_engine(last.database.url)
    with engine.connect() as connection, connection.begin() as transaction:
        mail.using(conn=connection).enqueue("stays")
        mail.using(conn=connection, key=mine).enqueue("stays, too")
        with pytest.raises(BadConnection, match="belongs to"):
            mail.using(conn=connection, key=elsewhere).enqueue("cannot")
        assert len(rows(sharded)[-1]) == 0
        transaction.commit()
    engine.dispose()

    assert len(rows(sharded)[-1]) == 2
    assert sum(len(found) for found in rows(sharded)) == 2


def test_a_raw_connection_of_a_driver_decides_the_shard_too(sharded):
    mail = declare_mail(sharded)
    sharded.prepare()

    for shard in sharded.fleet.shards:
        engine = create_engine(shard.database.url)
        raw = engine.raw_connection()
        mail.using(conn=raw.driver_connection).enqueue("raw")
        mail.using(conn=raw.driver_connection, key=key_for(sharded, shard, "mail")).enqueue("raw")
        raw.commit()
        raw.close()
        engine.dispose()

    assert [len(found) for found in rows(sharded)] == [2] * len(sharded.fleet.shards)


def test_a_connection_to_no_shard_is_refused_and_its_transaction_lives_on(
    sharded, empty_database_url
):
    mail = declare_mail(sharded)
    with closing(App(empty_database_url)) as stranger:
        engine = stranger.database.engine
        with engine.connect() as connection, connection.begin():
            with pytest.raises(BadConnection, match="not a connection to a shard of this app"):
                mail.using(conn=connection).enqueue("lost")

            assert connection.execute(text("select 1")).scalar() == 1


def test_items_live_at_home_and_are_found_there(sharded, clock):
    @sharded.rolling(every="1d")
    def level(code: str) -> str:
        return f"{code} seen"

    codes = [f"c{number}" for number in range(40)]
    added, again = level.add(codes), level.add(codes)
    sharded.drain()

    assert (added, again) == (40, 0)
    assert all(found for found in rows(sharded))
    assert level.item("c7").remark == "c7 seen"
    assert level.item("nowhere") is None
    assert level.freshness().total == 40
    assert level.remove(["c1", "c2", "nowhere"]) == 2
    assert level.freshness().total == 38
    clock.forward("1h")
    assert level.visit("c3").finished_at > level.item("c4").finished_at


def test_a_mirror_reads_the_items_of_all_shards(sharded, sqlite_url):
    @sharded.rolling(every="1d")
    def level(code: str) -> None: ...

    with closing(App(sqlite_url)) as shop, shop.database.engine.begin() as connection:
        connection.execute(text("create table product (code text primary key)"))
        for number in range(30):
            connection.execute(text("insert into product values (:code)"), {"code": f"p{number}"})
    level.add(["gone-1", "gone-2"])

    first = level.mirror(Table(sqlite_url, "product", key="code"))
    second = level.mirror(Table(sqlite_url, "product", key="code"))

    assert (first.added, first.removed) == (30, 2)
    assert (second.added, second.removed) == (0, 0)


def test_a_table_cannot_be_followed_into_several_shards(sharded):
    @sharded.rolling(every="1d")
    def level(code: str) -> None: ...

    with pytest.raises(BadSource, match="mirror it now and then"):
        level.follow(Table(sharded.database.url, "product", key="code"))


def test_a_run_has_one_home_and_a_cron_one_row(sharded, make_app, clock):
    ran = []
    for app in (sharded, make_app(*_urls(sharded))):

        @app.cron("0 3 * * *")
        def nightly() -> None:
            ran.append("nightly")

        app.drain()
    other = make_app(*_urls(sharded))

    reply = sharded.control.start("load", partition="2026-11")
    second = other.control.start("load", partition="2026-11")
    clock.forward("1d")
    sharded.drain()

    assert (reply.code, second.code) == (0, 8)
    assert other.control.get("load", "2026-11").batch == reply.data["batch"]
    assert sharded.control.finish("load", "2026-11").code == 0
    assert sum(len(found) for found in rows(sharded)) == 1
    assert ran == ["nightly"]


def test_switches_hold_in_all_shards(sharded):
    mail = declare_mail(sharded)
    for number in range(6):
        mail.enqueue(f"m{number}")

    sharded.pause("mail", reason="sale")
    sharded.drain()
    paused = sum(len(found) for found in rows(sharded, status=Status.WAITING))
    sharded.resume("mail")
    sharded.drain()

    assert paused == 6
    assert rows(sharded, status=Status.WAITING) == [[] for _ in sharded.fleet.shards]


def test_work_that_is_handed_on_to_another_shard_is_drained_too(sharded):
    done = []

    @sharded.task
    def chain(left: int) -> None:
        done.append(left)
        if left:
            chain.enqueue(left - 1)

    chain.enqueue(12)
    sharded.drain()

    assert done == list(range(12, -1, -1))
    assert [len(found) for found in rows(sharded)] == [0] * len(sharded.fleet.shards)


def test_no_more_run_at_once_in_a_process_than_its_concurrency(sharded):
    running, most, lock = Counter(), Counter(), threading.Lock()

    def note(kind, change):
        with lock:
            for what in ("all", kind):
                running[what] += change
                most[what] = max(most[what], running[what])

    @sharded.task(concurrency=2)
    def narrow(number: int) -> None:
        note("narrow", 1)
        time.sleep(0.01)
        note("narrow", -1)

    @sharded.task
    async def wide(number: int) -> None:
        note("wide", 1)
        await asyncio.sleep(0.01)
        note("wide", -1)

    for number in range(30):
        narrow.enqueue(number)
        wide.enqueue(number)
    asyncio.run(sharded.worker(concurrency=5, until_idle=True).run())

    assert [len(found) for found in rows(sharded)] == [0] * len(sharded.fleet.shards)
    assert most["narrow"] == 2
    assert most["all"] == 5


def test_a_busy_shard_leaves_slots_to_the_others(sqlite_url, make_app, second_sqlite_url):
    app = make_app(sqlite_url, second_sqlite_url)
    ended = []

    @app.task
    def work(where: int) -> None:
        time.sleep(0.005)
        ended.append(where)

    busy, other = app.fleet.shards
    work.enqueue_many([{"where": 1}] * 300, keys=_keys_for(app, busy, "work", 300))
    work.enqueue_many([{"where": 2}] * 20, keys=_keys_for(app, other, "work", 20))

    asyncio.run(app.worker(concurrency=4, until_idle=True).run())

    assert len(ended) == 320
    assert max(index for index, where in enumerate(ended) if where == 2) < 200


def test_a_rate_is_for_all_shards_together(sharded):
    @sharded.task(rate="40/s")
    async def call(number: int) -> None: ...

    for number in range(45):
        call.enqueue(number)
    began = time.monotonic()
    sharded.drain()
    took = time.monotonic() - began

    assert 0.8 < took < 3.0


async def test_the_twins_know_the_shards_too(sqlite_url, make_app, second_sqlite_url):
    app = make_app(sqlite_url, second_sqlite_url)
    mail = declare_mail(app)

    refs = [await mail.aenqueue(f"m{number}") for number in range(4)]
    await app.adrain()

    assert [await ref.aresult() for ref in refs] == [f"to m{number}" for number in range(4)]


# How databases come together


def test_an_app_grows_from_one_database_to_two(sqlite_url, make_app, tmp_path):
    alone = make_app(sqlite_url)
    mail = declare_mail(alone)
    old = [mail.using(key=f"k{number}").enqueue("before") for number in range(20)]
    alone.pause("mail", reason="sale")

    grown = make_app(sqlite_url, f"sqlite:///{tmp_path / 'second.db'}")
    more = declare_mail(grown)
    same = [more.using(key=f"k{number}").enqueue("after") for number in range(20)]
    new = [more.using(key=f"n{number}").enqueue("after") for number in range(20)]
    grown.drain()
    held = [ref.status() for ref in same + new]
    grown.resume("mail")
    grown.drain()

    assert same == old
    assert {place_of(ref.id) for ref in new} == {0, 1}
    assert set(held) == {Status.WAITING}
    assert [ref.result() for ref in same] == ["to before"] * 20
    assert [ref.result() for ref in new] == ["to after"] * 20


def test_a_new_shard_may_come_first_in_the_list(sqlite_url, make_app, tmp_path):
    mail = declare_mail(make_app(sqlite_url))
    old = mail.enqueue("before")

    grown = make_app(f"sqlite:///{tmp_path / 'second.db'}", sqlite_url)
    declare_mail(grown)

    assert places(grown) == [1, 0]
    assert grown.ref(old.id).status() is Status.WAITING


def test_a_database_that_follows_tables_cannot_become_one_of_several(
    database_url, make_app, tmp_path
):
    alone = make_app(database_url)

    @alone.rolling(every="1d")
    def level(code: str) -> None: ...

    product = Table(database_url, "shard_product", key="code")
    alone.prepare()
    with alone.database.engine.begin() as connection:
        connection.execute(text("create table shard_product (code varchar(50) primary key)"))
    level.follow(product)

    with pytest.raises(BadDatabase, match="follows tables by triggers"):
        make_app(database_url, f"sqlite:///{tmp_path / 'second.db'}").prepare()
    level.unfollow(product)
    make_app(database_url, f"sqlite:///{tmp_path / 'second.db'}").prepare()


def test_two_databases_that_both_have_tasks_are_refused(sqlite_url, make_app, tmp_path):
    other_url = f"sqlite:///{tmp_path / 'second.db'}"
    for url in (sqlite_url, other_url):
        declare_mail(make_app(url)).enqueue("mine")

    with pytest.raises(BadDatabase, match="a database that joins must be empty"):
        make_app(sqlite_url, other_url).prepare()


def test_a_third_shard_joins_two(sqlite_url, make_app, tmp_path):
    urls = [sqlite_url, *(f"sqlite:///{tmp_path / name}.db" for name in "bc")]
    two = make_app(*urls[:2])
    mail = declare_mail(two)
    old = [mail.using(key=f"k{number}").enqueue("before") for number in range(30)]
    before = dict(zip(urls, places(two), strict=False))

    three = make_app(*urls)
    more = declare_mail(three)
    same = [more.using(key=f"k{number}").enqueue("after") for number in range(30)]

    assert same == old
    assert places(three) == [*before.values(), 2]


def test_processes_that_put_shards_together_at_once_agree(make_app, tmp_path):
    urls = [f"sqlite:///{tmp_path / name}.db" for name in "abcd"]

    def gather(count):
        apps = [make_app(*random.sample(urls[:count], count)) for _ in range(6)]
        with ThreadPoolExecutor(6) as threads:
            list(threads.map(App.prepare, apps))
        return [app.fleet.roster for app in apps], apps[0]

    first, _ = gather(2)
    second, app = gather(4)

    assert len({str(roster) for roster in first}) == 1
    assert sorted(places(app)) == [0, 1, 2, 3]
    assert len({peer.place for peer in second[-1].peers.values()}) == 4
    numbers = {row_of(shard).number for shard in app.fleet.shards}
    assert len(numbers) == 1


def test_one_who_only_reads_hears_that_rows_have_moved(sharded, make_app, monkeypatch):
    reader = make_app(*_urls(sharded))
    shard = sharded.fleet.shards[0]
    key = key_for(sharded, shard, "level")
    for app in (sharded, reader):

        @app.rolling(every="1d")
        def level(code: str) -> None: ...

        if app is sharded:
            level.add([key])
    assert level.item(key) is not None
    monkeypatch.setattr("windlass.operate.shard.operate.HEARD_SECONDS", 0.0)
    monkeypatch.setattr("windlass.core.shard.shard.LOOK_AGAIN_AFTER", 0.0)

    operate.drain(sharded.fleet, "1")
    operate.move(sharded.fleet, "1", dead_after=5_000_000)

    assert level.item(key) is not None


def test_a_process_that_began_before_a_shard_joined_says_so(sqlite_url, make_app, tmp_path):
    urls = [sqlite_url, *(f"sqlite:///{tmp_path / name}.db" for name in "bc")]
    two = make_app(*urls[:2])
    mail = declare_mail(two)
    mail.enqueue("hello")
    three = make_app(*urls)
    key = key_for(three, three.fleet.shards[2], "mail")

    mail.enqueue("still goes")
    with pytest.raises(BadDatabase, match="and restart"):
        mail.using(key=key).enqueue("where?")


def test_leaving_out_a_shard_is_refused(sqlite_url, make_app, tmp_path):
    urls = [sqlite_url, *(f"sqlite:///{tmp_path / name}.db" for name in "bc")]
    make_app(*urls).migrate()

    for some in (urls[:2], urls[:1], urls[2:]):
        with pytest.raises(BadDatabase, match="does not list all of its shards"):
            make_app(*some).prepare()


def test_the_same_database_twice_is_refused(sqlite_url, make_app, tmp_path):
    with pytest.raises(BadDatabase, match="given twice"):
        make_app(sqlite_url, sqlite_url)

    link = tmp_path / "link.db"
    link.symlink_to(Path(sqlite_url.removeprefix("sqlite:///")))
    with pytest.raises(BadDatabase, match="the same database"):
        make_app(sqlite_url, f"sqlite:///{link}").prepare()


def test_a_shard_of_another_app_is_refused(make_app, tmp_path):
    urls = [f"sqlite:///{tmp_path / name}.db" for name in "abcd"]
    make_app(*urls[:2]).migrate()
    make_app(*urls[2:]).migrate()

    with pytest.raises(BadDatabase, match="shard of another app"):
        make_app(*urls[:2], urls[2]).prepare()


def test_more_databases_than_places_are_refused():
    with pytest.raises(BadDatabase, match="at most 31"):
        App(*(f"sqlite:///{number}.db" for number in range(32)))


def test_ids_survive_as_numbers_of_json(sharded):
    mail = declare_mail(sharded)

    ids = [mail.enqueue("a").id for _ in sharded.fleet.shards]

    assert [int(float(json.dumps(number))) for number in ids] == ids


def _urls(app):
    return [shard.database.url for shard in app.fleet.shards]


def _keys_for(app, shard, kind, count):
    app.prepare()
    keys = (f"k{number}" for number in itertools.count())
    return list(
        itertools.islice((key for key in keys if app.fleet.home(kind, key) is shard), count)
    )


def _refuse(*_args, **_options):
    raise RuntimeError("the disk is full")


def test_what_was_written_before_the_shards_changed_is_not_written_again(
    sharded, make_app, shard_urls, monkeypatch
):
    ran: list[str] = []

    def declare(app: App):
        @app.task(keep="0s")
        def note(text: str) -> None:
            ran.append(text)

        return note

    other = make_app(*shard_urls)
    note, _ = declare(sharded), declare(other)
    keys = [key_for(sharded, shard, "note") for shard in sharded.fleet.shards]
    guard, guarded, before = sharded.fleet.guard, [], sharded.fleet.roster.number

    def change_before_the_second(shard, number):
        guarded.append(shard)
        if len(guarded) == 2:
            other.drain()
            operate.drain(other.fleet, str(1 + other.fleet.shards.index(at(other, shard))))
        return guard(shard, number)

    monkeypatch.setattr(sharded.fleet, "guard", change_before_the_second)
    refs = note.enqueue_many([{"text": key} for key in keys], keys=keys)

    assert sharded.fleet.roster.number > before
    other.drain()
    assert sorted(ran) == sorted(keys)
    assert len({ref.id for ref in refs}) == len(keys)


def at(app: App, shard):
    """The same shard of another app."""
    return next(each for each in app.fleet.shards if each.name == shard.name)
