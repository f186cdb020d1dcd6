"""`windlass sweep`: what people see of sweeps, and what they do with them."""

from uuid import UUID

import pytest

from tests.cli.terminal import Terminal
from tests.fixture.command import open_module
from windlass.sweep.command import _bar, _place

# What differs between the databases is proven by the protocol's tests, on all three.
pytestmark = pytest.mark.mostly("sqlite")

YARD = """
from datetime import UTC, datetime

from windlass import App, Keys
from windlass.clock import ManualClock

app = App({url!r}, clock=ManualClock(datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)))
bad = {{7}}

@app.sweep(Keys(1, 40), ranges=4, redo="4h", timeout="5s", concurrency=2)
def offer(number: int) -> None:
    if number in bad:
        raise ValueError(f"no offer for {{number}}")

@app.task(timeout="5s")
def send_mail(to: str) -> None: ...
"""


@pytest.fixture
def yard(database_url, write_module, monkeypatch):
    """A sweep over the numbers from 1 to 40, of which 7 fails."""
    yield from open_module(YARD.format(url=database_url), write_module, monkeypatch)


@pytest.fixture
def sqlite_yard(sqlite_url, write_module, monkeypatch):
    yield from open_module(YARD.format(url=sqlite_url), write_module, monkeypatch)


def test_sweeps_are_listed(windlass, yard):
    before = windlass("sweep", "list")
    yard.app.drain()
    after = windlass("sweep", "list")

    assert "no worker has found it yet" in before.out
    assert "100.0 %" in after.out
    (found,) = windlass("sweep", "list", "--json").json
    assert (found["sweep"], found["round"], found["done"], found["failed"]) == ("offer", 1, 39, 1)


def test_a_sweep_is_shown_with_its_ranges_as_bars(windlass, yard):
    yard.app.drain()

    answer = windlass("sweep", "show", "offer")

    assert answer.code == 0
    assert "39 of about 40" in answer.out
    assert answer.out.count("█" * 30) == 5
    assert "waiting for the next round" in answer.out
    assert "last rounds" in answer.out


def test_programs_get_names_as_python_has_them(windlass, yard):
    yard.app.drain()

    found = windlass("sweep", "show", "offer", "--json").json

    assert found["percent"] == 100.0
    assert [each["begin"] for each in found["ranges"]] == [None, 10, 20, 30]
    assert [each["end"] for each in found["ranges"]] == [10, 20, 30, None]
    assert {each["status"] for each in found["ranges"]} == {"succeeded"}
    assert found["history"][0]["done"] == 39
    assert found["next_at"] == "2026-01-01T04:00:30.000000+00:00" or "04:00:30" in found["next_at"]


def test_a_sweep_is_split(windlass, yard):
    yard.offer.start()

    answer = windlass("sweep", "split", "offer", "10")
    again = windlass("sweep", "split", "offer", "3", "--json")
    more = windlass("sweep", "split", "offer", "4000")

    assert "offer has 10 ranges" in answer.out
    assert again.json == {"ranges": 3}
    assert "are not possible now" in more.out
    assert windlass("sweep", "audit", "offer").code == 0


@pytest.mark.parametrize("count", ["0", "5000"])
def test_a_number_of_ranges_that_makes_no_sense_is_refused(windlass, sqlite_yard, count):
    answer = windlass("sweep", "split", "offer", count)

    assert answer.code == 1
    assert "give a number from 1 to 4096" in answer.err


def test_a_round_is_started(windlass, yard):
    answer = windlass("sweep", "start", "offer")
    again = windlass("sweep", "start", "offer", "--json")

    assert "round 1 of offer runs" in answer.out
    assert again.json == {"round": 1}
    assert len(yard.offer.ranges()) == 4


def test_failed_items_are_listed_and_tried_again(windlass, yard):
    assert "offer has no failed items." in windlass("sweep", "failures", "offer").out
    yard.app.drain()

    listed = windlass("sweep", "failures", "offer")
    (found,) = windlass("sweep", "failures", "offer", "--json", "--limit", "5").json
    yard.bad.clear()
    retried = windlass("sweep", "retry", "offer")

    assert "no offer for 7" in listed.out
    assert (found["key"], found["error"]) == (7, "ValueError: no offer for 7")
    assert "1 item of offer run again" in retried.out
    assert windlass("sweep", "failures", "offer", "--json").json == []


def test_a_key_is_visited_now_or_soon(windlass, yard):
    visited = windlass("sweep", "visit", "offer", "5")
    soon = windlass("sweep", "visit", "offer", "6", "--soon", "--fresh", "10m")
    again = windlass("sweep", "visit", "offer", "6", "--soon", "--json")
    failed = windlass("sweep", "visit", "offer", "7", "--json")
    unknown = windlass("sweep", "visit", "offer", "5", "--text")

    assert "5 was visited: succeeded" in visited.out
    assert "visit of 6: asked" in soon.out
    assert again.json == {"visit": "pending"}
    assert (failed.code, failed.json["error"]) == (1, "ValueError: no offer for 7")
    assert unknown.code == 1


def test_failed_items_of_a_round_are_among_the_alerts(windlass, yard):
    yard.app.drain()

    answer = windlass("alerts")

    assert "ended with 1 failed items" in " ".join(answer.out.split())


def test_an_audit_is_told(windlass, yard):
    yard.app.drain()

    answer = windlass("sweep", "audit", "offer")

    assert (answer.code, windlass("sweep", "audit", "offer", "--json").json) == (
        0,
        {"ok": True, "problems": []},
    )
    assert "the 4 ranges of offer cover all keys once" in answer.out


def test_a_kind_that_is_not_a_sweep_is_refused_with_those_that_are(windlass, sqlite_yard):
    answer = windlass("sweep", "show", "send_mail")

    assert answer.code == 1
    assert "sweep kinds: offer" in answer.err


def test_status_tells_of_sweeps(windlass, yard):
    yard.app.drain()

    answer = windlass("status")
    found = {kind["kind"]: kind for kind in windlass("status", "--json").json["kinds"]}

    assert "round 1, 100 %" in answer.out
    assert found["offer"]["sweep"] == "round 1, 100 %"
    assert found["offer"]["failed"] == 1


def test_a_sweep_that_is_watched_is_drawn_until_it_is_enough(sqlite_yard):
    sqlite_yard.app.drain()

    with Terminal("sweep", "show", "offer", "--watch", columns=160) as terminal:
        terminal.wait_for("39 of about 40")
        terminal.type("\x03")
        assert terminal.close() == 0


def test_watching_needs_a_terminal(windlass, sqlite_yard):
    assert windlass("sweep", "show", "offer", "--watch").code == 2
    assert windlass("sweep", "show", "offer", "--watch", "--json").code == 2


BAD = """
from windlass import App, Lines, Table

app = App({url!r})
app.migrate()
with app.database.engine.begin() as connection:
    connection.exec_driver_sql("create table article (id bigint not null, title varchar(50))")

@app.sweep(Table({url!r}, "article", key="id"))
def unindexed(row) -> None: ...

@app.sweep(Table({url!r}, "articles", key="id"))
def missing(row) -> None: ...

@app.sweep(Lines("/nowhere/at/all.txt"))
def lost(line) -> None: ...
"""


def test_check_tells_of_sources_that_cannot_be_swept_well(
    windlass, empty_database_url, write_module, monkeypatch
):
    module = next(open_module(BAD.format(url=empty_database_url), write_module, monkeypatch))

    answer = windlass("check", "--json")
    module.app.close()

    told = {finding["about"]: finding for finding in answer.json}
    assert told["unindexed"]["level"] == "warning"
    assert "no index has id first" in told["unindexed"]["text"]
    assert "The plan of a page:" in told["unindexed"]["text"]
    assert (told["missing"]["level"], told["lost"]["level"]) == ("error", "error")
    assert "no such table" in told["missing"]["text"]
    assert answer.code == 1


def test_a_uuid_is_shown_whole_and_a_longer_key_with_a_mark():
    number = "0191d3a4-7c1e-7000-8000-0123456789ab"

    assert _place(UUID(number)).plain == number
    assert _place("k" * 40).plain == "k" * 35 + "…"
    assert _bar(None).plain.endswith(" unknown")


def test_a_run_over_a_given_source_is_started_shown_and_cancelled(windlass, yard):
    numbers = '{"keys": {"begin": 1, "end": 3}}'
    started = windlass("sweep", "start", "offer", "--source", numbers, "--key", "up-1", "--json")
    again = windlass("sweep", "start", "offer", "--source", numbers, "--key", "up-1")
    listed = windlass("sweep", "runs", "offer")
    shown = windlass("sweep", "show", "offer@1")
    cancelled = windlass("sweep", "cancel", "offer@1")

    assert started.json == {"run": 1, "name": "offer@1", "created": True}
    assert "already started as offer@1" in again.out
    assert "up-1" in listed.out
    assert "waiting for a worker" in shown.out
    assert "offer@1 was cancelled" in cancelled.out
    assert windlass("sweep", "cancel", "offer").code != 0
    assert windlass("sweep", "show", "offer@9").code != 0


def test_the_failed_items_of_a_run_are_retried_by_its_name(windlass, yard):
    windlass("sweep", "start", "offer", "--source", '{"keys": {"begin": 7, "end": 8}}')
    yard.app.drain(kinds=["offer"])

    assert windlass("sweep", "failures", "offer@1", "--json").json[0]["key"] == 7
    yard.bad.clear()
    assert windlass("sweep", "retry", "offer@1", "--json").json == {"retried": 1}
    assert windlass("sweep", "failures", "offer@1", "--json").json == []
    assert windlass("sweep", "audit", "offer@1").code == 0
