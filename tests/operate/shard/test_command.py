"""`windlass shard list|drain|move`, and what other commands say of several shards."""

import io
import os
import sys

import pytest
from sqlalchemy import make_url

from tests.core.fetch.manual_worker import Hand
from tests.server.relay import Relay
from tests.wait import eventually
from windlass import Status
from windlass.control import store as control
from windlass.control.model.control import RunStatus
from windlass.core.ring import store as ring_store
from windlass.operate.shard import operate

pytestmark = pytest.mark.mostly("sqlite", "postgresql")

SHOP = """
from windlass import App

app = App(*{urls!r}, dead_after="2s")

@app.task(keep="1h", timeout="5s")
def send_mail(to: str) -> str:
    return f"sent to {{to}}"

@app.rolling(every="1d", timeout="5s")
def stock(code: str) -> str:
    return f"7 of {{code}}"
"""


@pytest.fixture
def urls(sqlite_url, tmp_path):
    return [sqlite_url, f"sqlite:///{tmp_path / 'second.db'}"]


@pytest.fixture
def shop(urls, write_module, monkeypatch):
    """The shop over two shards."""
    yield from open_shop(urls, write_module, monkeypatch)


def open_shop(urls, write_module, monkeypatch):
    monkeypatch.setattr(operate, "HEARD_SECONDS", 0.0)
    module = write_module(SHOP.format(urls=urls))
    monkeypatch.setenv("WINDLASS_APP", f"{module}:app")
    sys.path.insert(0, os.getcwd())
    loaded = __import__(module)
    yield loaded
    loaded.app.close()


def test_shards_are_listed_with_what_they_have(windlass, shop, urls):
    for number in range(4):
        shop.send_mail.enqueue(f"m{number}")

    answer, found = windlass("shard", "list"), windlass("shard", "list", "--json").json

    assert answer.code == 0
    assert all(url in answer.out for url in urls)
    assert [shard["number"] for shard in found] == [1, 2]
    assert sorted(shard["place"] for shard in found) == [0, 1]
    assert [(shard["waiting"], shard["workers"], shard["up"]) for shard in found] == [
        (2, 0, True)
    ] * 2


def test_a_shard_is_drained_and_moved_and_may_be_opened_again(windlass, shop):
    refs = [shop.send_mail.using(key=f"k{number}", delay="1h").enqueue("a") for number in range(20)]

    drained = windlass("shard", "drain", "2")
    state = windlass("shard", "list").out
    moved = windlass("shard", "move", "second.db", "--json")
    again = windlass("shard", "move", "2")
    listed = windlass("shard", "list", "--json").json
    opened = windlass("shard", "drain", "2", "--undo", "--json")

    assert drained.code == 0
    assert "next: windlass shard move 2" in drained.out
    assert "draining" in state
    assert (moved.code, moved.json["done"]) == (0, True)
    assert moved.json["moved"] > 0
    assert "all is where it belongs" in again.out
    assert (listed[0]["waiting"], listed[1]["waiting"]) == (20, 0)
    assert opened.json["draining"] is False
    assert [ref.status() for ref in refs] == [Status.WAITING] * 20
    written = [deed["action"] for deed in windlass("audit", "--json").json]
    assert written == ["shard.drain", "shard.move", "shard.move", "shard.drain"]


def test_a_move_that_leaves_rows_says_so(windlass, shop):
    ref = shop.send_mail.enqueue("now")
    shard = next(each for each in shop.app.fleet.shards if each.row.place == ref.id >> 48)
    shop.app.database, shop.app.clock = shard.database, shard.clock
    Hand(shop.app).claim()
    name = str(shard.index)
    windlass("shard", "drain", name)

    answer = windlass("shard", "move", name, "--no-wait")

    assert answer.code == 1
    assert "waiting for 1 row that run" in answer.out
    assert "moved 0 rows; 1 row left" in answer.err


def test_a_name_that_is_not_a_shard_is_refused_with_those_there_are(windlass, shop, urls):
    answer = windlass("shard", "drain", "third")

    assert answer.code == 1
    assert "'third' is not a shard of this app" in answer.err
    assert urls[1] in answer.err


def test_the_last_shard_cannot_be_drained(windlass, shop):
    windlass("shard", "drain", "1")

    answer = windlass("shard", "drain", "2")

    assert answer.code == 1
    assert "is the only shard that takes rows" in answer.err


def test_giving_up_a_shard_asks_first(windlass, shop, monkeypatch):
    shop.app.prepare()
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))

    refused = windlass("shard", "drain", "2", "--lost")
    done = windlass("shard", "drain", "2", "--lost", "--yes")

    assert refused.code == 1
    assert (done.code, "take it out of App(...)" in done.out) == (0, True)


def test_a_worker_serves_the_shards_it_is_given(windlass_process, shop, urls):
    refs = [shop.send_mail.enqueue(f"m{number}") for number in range(6)]
    second = next(each for each in shop.app.fleet.shards if each.name == urls[1])

    some = windlass_process("worker", f"{shop.__name__}:app", "--once", "--shard", "2")
    statuses = {ref.id >> 48: ref.status() for ref in refs}
    rest = windlass_process("worker", f"{shop.__name__}:app", "--once")
    wrong = windlass_process("worker", f"{shop.__name__}:app", "--shard", "9")

    assert (some.code, rest.code) == (0, 0), some.err + rest.err
    assert statuses[second.row.place] is Status.SUCCEEDED
    assert sorted(statuses.values()) == [Status.WAITING, Status.SUCCEEDED]
    assert {ref.status() for ref in refs} == {Status.SUCCEEDED}
    assert wrong.code == 1
    assert "'9' is not a shard of this app" in wrong.err


def test_lists_and_tasks_come_from_all_shards_newest_first(windlass, shop):
    refs = [shop.send_mail.enqueue(f"m{number}") for number in range(6)]

    first = windlass("task", "list", "--limit", "4", "--json").json
    rest = windlass("task", "list", "--before", first[-1]["id"], "--json").json
    shown = windlass("task", "show", refs[0].id)
    cancelled = windlass("task", "cancel", refs[1].id)

    assert [task["id"] for task in first + rest] == [ref.id for ref in reversed(refs)]
    assert (shown.code, cancelled.code) == (0, 0)
    assert "shard" in shown.out
    assert refs[1].status() is Status.CANCELLED
    assert windlass("task", "retry", refs[1].id).code == 0
    assert refs[1].status() is Status.WAITING


def test_status_adds_up_the_shards(windlass, shop, urls):
    shop.stock.add(f"c{number}" for number in range(30))

    status = windlass("status", "--json").json
    text = windlass("status").out
    rolling = windlass("rolling", "show", "stock", "--json").json

    assert status["shards"] == urls
    assert status["missing"] == rolling["missing"] == []
    assert {kind["kind"]: kind["waiting"] for kind in status["kinds"]}["stock"] == 30
    assert all(url in text for url in urls)
    assert rolling["total"] == 30


def test_migrate_makes_the_tables_of_all_shards(windlass, write_module, tmp_path):
    urls = [f"sqlite:///{tmp_path / name}.db" for name in "ab"]
    module = write_module(f"from windlass import App\napp = App(*{urls!r})\n")

    first = windlass("migrate", "--json", "--app", f"{module}:app").json
    second = windlass("migrate", "--app", f"{module}:app").out
    checked = windlass("check", "--app", f"{module}:app")

    assert [shard["database"] for shard in first["shards"]] == urls
    assert second.count("is up to date") == 2
    assert checked.code == 0


def test_runs_are_listed_shown_and_released_wherever_they_are(windlass, shop):
    for number in range(8):
        assert shop.app.control.start(f"load-{number}").code == 0

    listed = windlass("control", "list", "--json").json
    shown = windlass("control", "show", "load-3")
    released = [windlass("control", "release", f"load-{n}", "--yes").code for n in range(8)]

    assert [run["name"] for run in listed] == [f"load-{number}" for number in range(8)]
    assert shown.code == 0
    assert released == [0] * 8
    assert shop.app.control.start("load-3").code == 0


def test_switches_are_set_in_all_shards(windlass, shop):
    answer = windlass("set", "send_mail", "--rate", "10/s", "--json")

    assert answer.json["rate"] == "10/s"
    assert windlass("pause", "send_mail").code == 0


def test_a_shard_that_does_not_answer_is_named_on_standard_error(
    windlass, sqlite_url, postgresql_url, write_module, monkeypatch
):
    with Relay(make_url(postgresql_url).port) as relay:
        urls = [sqlite_url, relay.url(postgresql_url)]
        shops = open_shop(urls, write_module, monkeypatch)
        shop = next(shops)
        for number in range(4):
            shop.send_mail.enqueue(f"m{number}")

        relay.refuse()
        status, tasks = windlass("status", "--json"), windlass("task", "list", "--json")
        text, shards = windlass("status"), windlass("shard", "list")

        assert (status.code, tasks.code) == (0, 0)
        assert len(status.json["missing"]) == 1
        assert len(tasks.json) == 2
        for answer in (status, tasks, text, shards):
            assert "warning: shard postgresql" in answer.err
        assert "does not answer" in text.out
        assert "does not answer" in shards.out
        relay.heal()
        eventually(lambda: shop.app.fleet.shards[1].is_up, 10.0)
        assert windlass("status", "--json").json["missing"] == []
        next(shops, None)


def test_the_ring_of_each_shard_is_shown_under_its_name(windlass, shop, urls):
    shop.app.prepare()
    hand = Hand(shop.app)
    first, second = shop.app.fleet.shards
    first.database.write(lambda connection: ring_store.acquire(connection, hand.id, range(256)))

    answer, found = windlass("ring"), windlass("ring", "--json").json

    assert answer.code == 0
    assert [line for line in answer.out.splitlines() if line.strip() in urls] == [
        first.name,
        second.name,
    ]
    assert "256 of 256 buckets owned" in answer.out
    assert "No worker is in the ring." in answer.out
    assert [(each["shard"], each["id"]) for each in found["members"]] == [(first.name, hand.id)]
    assert [(each["database"], each["owned"]) for each in found["shards"]] == [
        (first.name, 256),
        (second.name, 0),
    ]
    assert [(each["shard"], each["what"]) for each in found["moves"]] == [(first.name, "joined")]
    assert found["missing"] == []


def test_named_runs_are_released_and_reset_where_they_are(windlass, shop):
    names = [f"load-{number}" for number in range(8)]
    for name in names:
        shop.app.control.start(name)

    released = [windlass("control", "release", name, "--yes").code for name in names]
    failed = windlass("control", "list", "--failed", "--json").json
    reset = [windlass("control", "reset", name, "--yes").code for name in names]
    shown = [windlass("control", "show", name, "--json").json for name in names]

    assert released == reset == [0] * 8
    assert [run["name"] for run in failed] == names
    assert [(run["status"], len(run["history"])) for run in shown] == [(RunStatus.READY, 1)] * 8
    assert all(shard.database.read(control.listing) for shard in shop.app.fleet.shards)
