"""`windlass ring`: the picture, the tables, the moves, and JSON."""

import asyncio
import re
import threading

import pytest
from rich.console import Console

from tests.cli.terminal import Terminal, shown
from tests.core.fetch.manual_worker import Hand
from tests.wait import eventually
from windlass.app import FACES
from windlass.core.ring import store as ring_store
from windlass.core.ring.heartbeat import leave, mark_dead
from windlass.operate.ring.command import BAND_CELLS, NOBODY, MemberMark, band, circle, marks_of
from windlass.ring import assign, tokens_of

pytestmark = pytest.mark.mostly("sqlite", "postgresql")


def member(app, buckets=None):
    """A worker that is there and owns those buckets, or what is to be its own."""
    hand = Hand(app)
    wanted = range(256) if buckets is None else buckets
    app.database.write(lambda connection: ring_store.acquire(connection, hand.id, wanted))
    return hand


def members(app, count):
    """Workers that own what they should."""
    hands = [Hand(app) for _ in range(count)]
    for hand in hands:
        wanted = assign(each.id for each in hands)[hand.id]
        app.database.write(
            lambda connection, hand=hand, wanted=wanted: ring_store.acquire(
                connection, hand.id, wanted
            )
        )
    return hands


def band_of(text):
    return next(line for line in text.splitlines() if re.fullmatch(r"[\w·+]{64}", line))


class Employed:
    """A real worker, on a thread of its own."""

    def __init__(self, app):
        self.worker = app.worker(concurrency=2)
        self.thread = threading.Thread(target=lambda: asyncio.run(self.worker.run()))
        self.thread.start()

    def stop(self):
        if self.thread.is_alive():
            self.worker.stop()
        self.thread.join(30)


def test_no_worker_is_said(windlass, shop):
    answer = windlass("ring")
    found = windlass("ring", "--json").json

    assert answer.code == 0
    assert "No worker is in the ring." in answer.out
    assert (found["members"], found["owned"], found["free"]) == ([], 0, [[0, 255]])
    assert (found["moves"], found["known_by"]) == ([], "database")


def test_json_has_each_member_with_its_token_and_its_share_in_percent(windlass, shop):
    hands = members(shop.app, 3)

    found = windlass("ring", "--json").json

    ids = [hand.id for hand in hands]
    assert {each["id"]: each["token"] for each in found["members"]} == tokens_of(ids)
    assert sum(each["share"] for each in found["members"]) == 100.0
    assert sorted(each["share"] for each in found["members"]) == [33.203125, 33.203125, 33.59375]
    first, *_ = found["members"]
    assert first["buckets"] == first["wanted"] == [[0, 84]]
    assert (first["host"], first["pid"], first["idle"]) == ("hand", 1, 0)
    assert first["kinds"] == ["send_mail", "quick", "refuse", "nightly"]
    assert first["joined_at"].endswith("+00:00")
    assert 0 < first["lease_seconds"] <= 5


def test_shares_add_up_to_what_is_owned(windlass, sqlite_shop):
    member(sqlite_shop.app, range(10))
    member(sqlite_shop.app, range(20, 30))

    found = windlass("ring", "--json").json

    assert sum(each["share"] for each in found["members"]) == 100 * 20 / 256
    assert (found["owned"], found["free"]) == (20, [[10, 19], [30, 255]])


def test_the_table_and_the_moves_tell_what_json_does(windlass, shop):
    gone = member(shop.app, range(0))
    leave(shop.app.database, FACES, number=gone.id, now=shop.app.clock.now(), why="stopped", due={})
    one, two = members(shop.app, 2)

    out = windlass("ring").out

    assert "2 members by the database, 256 of 256 buckets owned." in out
    for place, number in enumerate(assign([one.id, two.id])):
        letter, buckets = "AB"[place], ("0-127", "128-255")[place]
        assert re.search(rf"^{letter} +{number}  +50\.0 %  +{buckets}  +\d+  +hand ", out, re.M)
    assert re.search(rf"^20\S+ \S+Z +\S+ +{gone.id}  left +stopped ", out, re.M)
    assert re.search(rf"^20\S+ \S+Z +\S+ +{one.id}  joined ", out, re.M)


def test_what_is_not_as_usual_is_said(windlass, sqlite_shop):
    shop = sqlite_shop
    shop.quick.enqueue()
    dead = member(shop.app, range(100))
    mark_dead(
        shop.app.database,
        FACES,
        number=dead.id,
        now=shop.app.clock.now(),
        why="it missed its heartbeat",
        lease=None,
    )
    member(shop.app, range(156, 256))

    out = windlass("ring").out

    assert "156 buckets not yet with the worker they are meant for." in out
    assert "100 buckets of dead workers" in out
    assert re.search(r"39\.1 % → 100\.0 %  +156-255 ", out)
    assert re.search(rf" {dead.id}  left +it missed its heartbeat ", out)
    assert band_of(out) == "·" * 39 + "A" * 25


def test_members_that_serve_only_some_kinds_are_told(windlass, sqlite_shop):
    app = sqlite_shop.app
    Hand(app)
    now = app.clock.now()
    app.database.write(
        lambda connection: ring_store.join(
            connection,
            number=99,
            host="picky",
            pid=2,
            kinds=ring_store.Kinds(serves=["quick"], declares=[]),
            now=now,
            lease_until=now + 9_000_000,
        )
    )

    out = windlass("ring").out

    assert re.search(r" hand +1 +all ", out)
    assert re.search(r" picky +2 +1 of 4 ", out)


def test_real_workers_share_the_ring_and_their_leave_is_told(windlass, shop):
    def shares():
        found = windlass("ring", "--json").json
        return sorted(each["share"] for each in found["members"])

    one = Employed(shop.app)
    two = Employed(shop.app)
    try:
        eventually(lambda: shares() == [50.0, 50.0], 20, what="two that share")
        two.stop()
        eventually(lambda: shares() == [100.0], 20, what="one that has all")
        (last, *_) = windlass("ring", "--json").json["moves"]
    finally:
        one.stop()
        two.stop()

    assert (last["what"], last["worker"], last["why"]) == (
        "left",
        two.worker.heartbeat.id,
        "stopped",
    )
    assert "No worker is in the ring." in windlass("ring").out


def test_it_needs_no_app_but_a_database(windlass, sqlite_shop, sqlite_url, monkeypatch):
    members(sqlite_shop.app, 2)
    monkeypatch.delenv("WINDLASS_APP")
    monkeypatch.setenv("WINDLASS_DATABASE_URL", sqlite_url)

    assert len(windlass("ring", "--json").json["members"]) == 2


def test_watch_is_for_people_at_a_terminal(windlass, sqlite_shop):
    with_json, in_a_pipe = windlass("ring", "--watch", "--json"), windlass("ring", "--watch")

    assert (with_json.code, in_a_pipe.code) == (2, 2)
    assert "leave --watch out" in with_json.err
    assert "on a terminal" in in_a_pipe.err


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_on_a_terminal_it_is_a_circle_and_no_line_is_cut(sqlite_shop, columns):
    app = sqlite_shop.app
    hands = members(app, 3)
    leave(app.database, FACES, number=hands[0].id, now=app.clock.now(), why="x" * 255, due={})
    app.database.write(
        lambda connection: connection.exec_driver_sql(
            "update windlass_worker set host = 'shop-worker-17.internal', pid = 4194303"
        )
    )

    text = shown("ring", columns=columns)

    assert max(map(len, text.splitlines())) <= columns
    assert "2 members" in text
    assert "▄▄▄████████▄▄▄" in text
    assert text.count("shop-worker-17.internal") >= 2
    assert "…" not in text
    assert text.count("x") >= 255
    for hand in hands[1:]:
        assert f"worker {hand.id}" in text
    for token in tokens_of(hand.id for hand in hands[1:]).values():
        assert str(token) in text


def test_without_colours_it_is_a_band_of_letters(sqlite_shop, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    members(sqlite_shop.app, 2)

    text = shown("ring", columns=80)

    assert band_of(text.replace(" ", "")) == "A" * 32 + "B" * 32


def test_watch_draws_again_and_ends_with_ctrl_c(sqlite_shop, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    member(sqlite_shop.app)
    with Terminal("ring", "--watch") as terminal:
        terminal.wait_for("1 member by the database")
        assert "2 members" not in terminal.text

        Hand(sqlite_shop.app)
        terminal.wait_for("2 members by the database")
        terminal.type("\x03")

        assert terminal.close() == 0
        assert "Aborted" not in terminal.text
        assert "Traceback" not in terminal.text


def test_neighbours_on_the_ring_never_have_one_colour():
    for count in range(2, 70):
        colours = [mark.colour for mark in marks_of(count)]
        assert all(colours[place] != colours[place - 1] for place in range(count)), count


def test_more_members_than_letters_can_still_be_drawn():
    marks = marks_of(300)

    assert len({mark.letter for mark in marks[:62]}) == 62
    assert marks[-1].letter == "+"
    assert len(band(marks[:256], in_colour=False).plain) == BAND_CELLS


def test_the_circle_goes_clockwise_from_the_top():
    first, second = MemberMark("A", "red"), MemberMark("B", "blue")

    rows = circle([first] * 64 + [NOBODY] * 128 + [second] * 64, []).renderables

    top, bottom = rows[2], rows[-3]
    assert colour_at(top, 25) == "red"
    assert colour_at(top, 10) == "blue"
    assert {colour_at(bottom, 10), colour_at(bottom, 25)} == {NOBODY.colour}


def colour_at(line, column):
    style = line.get_style_at_offset(Console(), column)
    return style.color.name if style.color else None


def test_a_plan_shows_the_ring_before_and_after_workers_join(windlass, sqlite_shop):
    nobody = windlass("ring", "--plan", "+2", "--json").json
    assert [each["new_buckets"] for each in nobody["members"]] == [[0, 127], [128, 255]]
    assert {each["token"] for each in nobody["members"]} == {None}
    assert nobody["moving"] == 256

    shown = windlass("ring", "--plan", "+1")
    assert shown.code == 0
    assert "1 worker joins: 256 of 256 buckets get another owner" in shown.out
    assert "0-255 (100.0 %)" in shown.out


def test_a_plan_with_workers_moves_only_what_it_must(windlass, sqlite_shop):
    from windlass.operate.ring.operate import plan, rings

    found = rings(sqlite_shop.app.fleet)[0]
    planned = plan(found, 4)

    assert sorted(each.new_token for each in planned.members) == [0, 2**30, 2**31, 3 * 2**30]
    assert sum(len(each.new_buckets) for each in planned.members) == 256


@pytest.mark.parametrize("given", ["-1", "two", "0", "+9999"])
def test_a_plan_of_no_workers_is_refused(windlass, sqlite_shop, given):
    refused = windlass("ring", "--plan", given)

    assert refused.code in (1, 2)
    assert "how many workers join" in refused.err
