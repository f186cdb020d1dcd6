"""`windlass pause|resume|set`, and what `windlass status` says of why a kind runs or does not."""

import getpass
import io
import re
from contextlib import closing

import pytest

from tests.core.fetch.dead import Doomed
from tests.core.run.working import switch_of
from tests.table import count
from windlass import App
from windlass.cli import output
from windlass.clock import SECOND
from windlass.database.dialect.base import Count
from windlass.database.schema import switch

pytestmark = pytest.mark.mostly("sqlite", "postgresql")

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
PRICE_AS_DECLARED = ("200/s", "01:00-07:00", 20)


@pytest.fixture
def status(windlass):
    """What `windlass status --json` says of one kind."""

    def look(name):
        answer = windlass("status", "--json")
        assert answer.code == 0
        (found,) = [kind for kind in answer.json["kinds"] if kind["kind"] == name]
        return found

    return look


@pytest.fixture
def line(windlass):
    """The line of one kind in `windlass status`."""

    def look(name):
        answer = windlass("status")
        assert answer.code == 0
        (found,) = [line for line in answer.out.splitlines() if line.split()[:1] == [name]]
        return found

    return look


def is_one_line(answer):
    """An error as it should be: a line on standard error, and nothing else."""
    return (
        answer.out == ""
        and answer.err.startswith("error: ")
        and answer.err.count("\n") == 1
        and "Traceback" not in answer.err
    )


def break_mail(depot):
    """Two errors in a row, which open its breaker."""
    depot.send_mail.enqueue_many([{"to": "a@b.c"}] * 2)
    depot.app.drain()


def work_done(depot, kind, times):
    """Somebody did so much of a kind in the minute before this one."""
    minute = depot.app.clock.now() // MINUTE - 1
    depot.app.database.write(
        lambda connection: depot.app.database.dialect.count(
            connection, [Count(minute, kind, 1, done=times)]
        )
    )


# Pause and resume


def test_pause_says_so_and_keeps_who_and_why(windlass, depot):
    answer = windlass("pause", "stock", "--reason", "server move", "--who", "ada")

    assert (answer.code, answer.out) == (0, "✓ stock is paused\n")
    row = switch_of(depot.app, "stock")
    assert (row["off"], row["reason"], row["who"]) == (1, "server move", "ada")


def test_pause_as_json_is_the_switch(windlass, each_depot):
    answer = windlass("pause", "stock", "--reason", "server move", "--who", "ada", "--json")

    found = answer.json
    assert found.pop("since").startswith("2026-01-01T00:00:30")
    assert found == {
        "kind": "stock",
        "group": None,
        "off": True,
        "reason": "server move",
        "who": "ada",
        "until": None,
        "paused_by": ["stock"],
        "window": None,
        "rate": None,
        "concurrency": None,
        "breaker": "closed",
        "errors_in_a_row": 0,
        "opened_at": None,
        "probe_at": None,
    }


def test_pause_without_who_is_by_this_user_here(windlass, depot):
    found = windlass("pause", "stock", "--json").json

    assert re.fullmatch(re.escape(getpass.getuser()) + "@.+", found["who"])
    assert found["reason"] is None


def test_what_is_paused_does_not_run_until_it_is_resumed(windlass, each_depot):
    each_depot.stock.add(["A"])

    windlass("pause", "stock")
    each_depot.app.drain()
    assert each_depot.stock.item("A").finished_at is None

    answer = windlass("resume", "stock")
    each_depot.app.drain()
    assert (answer.code, answer.out) == (0, "✓ stock is resumed\n")
    assert each_depot.stock.item("A").finished_at is not None


def test_resume_as_json_is_the_switch_without_who_and_why(windlass, depot):
    windlass("pause", "stock", "--reason", "server move")

    found = windlass("resume", "stock", "--json").json

    assert (found["kind"], found["off"]) == ("stock", False)
    assert (found["reason"], found["who"], found["since"]) == (None, None, None)


def test_resume_closes_a_breaker(windlass, each_depot):
    break_mail(each_depot)

    assert windlass("pause", "send_mail", "--json").json["breaker"] == "open"
    found = windlass("resume", "send_mail", "--json").json

    assert (found["breaker"], found["errors_in_a_row"]) == ("closed", 0)
    assert (found["opened_at"], found["probe_at"]) == (None, None)


def test_pausing_twice_and_resuming_twice_is_not_an_error(windlass, depot):
    assert windlass("pause", "stock", "--reason", "one").code == 0
    assert windlass("pause", "stock", "--reason", "two", "--json").json["reason"] == "two"
    assert windlass("resume", "stock").code == 0
    assert windlass("resume", "stock").code == 0


def test_resume_tells_what_else_holds_the_kind_back(windlass, depot):
    windlass("pause", "price")

    answer = windlass("resume", "price")

    assert answer.code == 0
    assert answer.out.startswith("✓ price is resumed; window closed, opens Thu 01:00 UTC (in 59m")


# Set


def test_set_changes_what_is_given_and_leaves_the_rest(windlass, each_depot, status):
    answer = windlass("set", "stock", "--rate", "300/s")
    assert (answer.code, answer.out) == (
        0,
        "✓ stock is set: rate 300/s, no window, no limit\n",
    )

    windlass("set", "stock", "--window", "00:00-07:00", "--concurrency", "5")

    found = status("stock")
    assert (found["rate"], found["window"], found["concurrency"]) == ("300/s", "00:00-07:00", 5)


def test_set_as_json_is_the_switch(windlass, depot):
    options = ("--rate", "40/m", "--window", "Mon-Fri  01:00-07:00", "--concurrency", "5")

    found = windlass("set", "stock", *options, "--json").json

    assert (found["kind"], found["off"], found["rate"]) == ("stock", False, "40/m")
    assert (found["window"], found["concurrency"]) == ("Mon-Fri 01:00-07:00", 5)


def test_set_tells_that_the_kind_is_held_back_now(windlass, depot):
    answer = windlass("set", "stock", "--window", "03:00-07:00")

    assert "stock is set: no rate, window 03:00-07:00, no limit; window closed, opens" in answer.out


def test_none_takes_a_rate_and_a_window_away(windlass, depot, status):
    answer = windlass("set", "price", "--rate", "none", "--window", "none")

    assert answer.out == "✓ price is set: no rate, no window, 20 at once\n"
    found = status("price")
    assert (found["rate"], found["window"], found["concurrency"]) == (None, None, 20)
    row = switch_of(depot.app, "price")
    assert (row["rate"], row["time_window"]) == ("none", "none")


def test_default_goes_back_to_what_the_kind_declares(windlass, each_depot, status):
    windlass("set", "price", "--rate", "1/s", "--window", "none", "--concurrency", "3")
    changed = status("price")

    every = ("--rate", "default", "--window", "default", "--concurrency", "default")
    found = windlass("set", "price", *every, "--json").json

    assert (changed["rate"], changed["window"], changed["concurrency"]) == ("1/s", None, 3)
    assert (found["rate"], found["window"], found["concurrency"]) == (None, None, None)
    declared = status("price")
    assert (declared["rate"], declared["window"], declared["concurrency"]) == PRICE_AS_DECLARED


def test_default_of_one_leaves_the_others(windlass, depot, status):
    windlass("set", "price", "--rate", "1/s", "--concurrency", "3")

    windlass("set", "price", "--rate", "default")

    found = status("price")
    assert (found["rate"], found["concurrency"]) == ("200/s", 3)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ([], 2, "nothing to set; give --rate, --window or --concurrency"),
        (["--rate", "fast"], 2, "rate: cannot read 'fast'"),
        (["--rate", "0/s"], 2, "rate: '0/s' is too slow"),
        (["--rate", ""], 2, "rate: cannot read ''"),
        (["--window", "25:00-26:00"], 2, "window: "),
        (["--window", "01:00-07:00 Mars/Olympus"], 2, "time zone 'Mars/Olympus' is not known"),
        (["--window", ""], 2, "window: '' is empty"),
        (["--concurrency", "0"], 2, "--concurrency '0' is neither a number from 1 on"),
        (["--concurrency", "many"], 2, "--concurrency 'many' is neither a number from 1 on nor"),
        (["--concurrency", "none"], 2, "--concurrency 'none' is neither a number from 1 on nor"),
        (["--rate", "5/s", "--window", "late"], 2, "cannot read 'late'"),
    ],
)
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_bad_set_is_refused_and_changes_nothing(windlass, depot, options, code, said, form):
    answer = windlass("set", "stock", *options, *form)

    assert answer.code == code
    assert said in answer.err
    assert is_one_line(answer)
    assert count(depot.app, switch) == 0


@pytest.mark.parametrize(
    "arguments", [["pause", "stok"], ["resume", "stok"], ["set", "stok", "--rate", "1/s"]]
)
def test_a_kind_that_is_not_declared_is_refused(windlass, depot, arguments):
    answer = windlass(*arguments)

    assert answer.code == 1
    assert (
        "kind 'stok' is not declared in this app; declared: price, send_mail, stock" in answer.err
    )
    assert is_one_line(answer)
    assert count(depot.app, switch) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["set"],
        ["pause", "stock", "--group", "night"],
        ["pause", "stock", "price"],
        ["set", "stock", "5"],
    ],
)
def test_what_is_missing_or_too_much_is_a_usage_error(windlass, depot, arguments):
    answer = windlass(*arguments)

    assert (answer.code, answer.out) == (2, "")
    assert "Traceback" not in answer.err
    assert count(depot.app, switch) == 0


@pytest.mark.parametrize(
    "command", [["pause", "x"], ["resume", "x"], ["set", "x", "--rate", "1/s"]]
)
def test_without_an_app_a_command_asks_for_one(windlass, command):
    answer = windlass(*command)

    assert answer.code == 2
    assert "which app? give --app module:app, or set WINDLASS_APP" in answer.err


# Why


def test_status_says_who_paused_a_kind_and_why_and_since_when(windlass, depot, status, line):
    windlass("pause", "stock", "--reason", "server move", "--who", "ada")
    depot.app.clock.advance(90 * MINUTE)

    said = "paused by ada 1h30m ago: server move"
    found = status("stock")
    assert (found["paused"], found["why"]) == (True, said)
    assert said in line("stock")


def test_a_pause_without_a_reason_needs_none(windlass, depot, status):
    windlass("pause", "stock", "--who", "ada")
    depot.app.clock.advance(2 * HOUR)

    assert status("stock")["why"] == "paused by ada 2h ago"


def test_status_says_when_a_closed_window_opens(windlass, depot, status, line):
    Doomed(depot.app, serves=True)

    said = r"window closed, opens Thu 01:00 UTC \(in 59m\d\ds\)"
    assert re.fullmatch(said, status("price")["why"])
    assert re.search(said, line("price"))
    assert status("price")["window"] == "01:00-07:00"

    depot.app.clock.advance(HOUR)
    assert "window" not in status("price")["why"]


def test_status_says_that_a_breaker_is_open_and_when_it_is_probed(
    windlass, each_depot, status, line
):
    assert status("send_mail")["breaker"] == "closed"

    break_mail(each_depot)

    said = r"breaker open after 2 errors in a row, probed in (10m|9m59s)"
    found = status("send_mail")
    assert found["breaker"] == "open"
    assert re.fullmatch(said, found["why"])
    assert re.search(said, line("send_mail"))

    each_depot.app.clock.advance(HOUR)
    why = status("send_mail")["why"]
    assert why == "breaker open after 2 errors in a row, about to be probed"


def test_status_says_that_a_kind_runs_as_fast_as_its_rate_lets_it(
    windlass, each_depot, status, line
):
    each_depot.app.clock.advance(HOUR)
    each_depot.price.add(["A"])
    Doomed(each_depot.app, serves=True)

    work_done(each_depot, "price", 200 * 90)

    assert status("price")["why"] == "running at its rate of 200/s"
    assert "running at its rate of 200/s" in line("price")


def test_status_says_that_a_kind_waits_for_its_rate(windlass, depot, status):
    depot.app.clock.advance(HOUR)
    depot.price.add(["A"])
    Doomed(depot.app, serves=True)

    assert status("price")["why"] == "starting"

    windlass("set", "price", "--rate", "6/h")
    assert status("price")["why"] == "waiting for its rate of 6/h"


def test_status_says_that_nothing_is_due(windlass, depot, status, line):
    Doomed(depot.app, serves=True)

    assert status("stock")["why"] == "nothing due"
    assert "nothing due" in line("stock")


def test_status_says_that_a_kind_has_no_worker(windlass, depot, status, line):
    depot.stock.add(["A"])

    assert status("stock")["why"] == "no worker"
    assert "no worker" in line("stock")


def test_a_worker_that_is_silent_does_not_count(windlass, depot, status):
    Doomed(depot.app, serves=True)
    assert status("stock")["why"] == "nothing due"

    depot.app.clock.advance(HOUR)

    assert status("stock")["why"] == "no worker"


def test_status_says_that_no_worker_declares_a_kind_that_has_rows(
    windlass, each_depot, status, line
):
    with closing(App(each_depot.app.database.url, clock=each_depot.app.clock)) as other:

        @other.task
        def relic() -> None: ...

        relic.enqueue()

    found = status("relic")
    assert (found["is_declared"], found["waiting"]) == (False, 1)
    assert found["why"] == "no worker declares it"
    assert (found["rate"], found["window"], found["concurrency"]) == (None, None, None)
    assert "no worker declares it" in line("relic")


def test_status_says_that_a_kind_runs(windlass, each_depot, status, line):
    each_depot.stock.add(["A", "B"])
    Doomed(each_depot.app).take()

    found = status("stock")
    assert (found["why"], found["running"], found["waiting"]) == ("running", 1, 1)
    assert line("stock").split()[:2] == ["stock", "running"]


def test_status_says_that_a_kind_is_about_to_start(windlass, depot, status):
    depot.stock.add(["A"])
    Doomed(depot.app, serves=True)

    assert status("stock")["why"] == "starting"


def test_status_has_what_holds_for_every_kind(windlass, depot, status):
    price, mail = status("price"), status("send_mail")

    assert (price["rate"], price["window"], price["concurrency"]) == PRICE_AS_DECLARED
    assert (price["every"], price["cron"], price["paused"]) == ("1d", None, False)
    assert (mail["every"], mail["rate"], mail["window"]) == (None, None, None)
    assert (mail["concurrency"], mail["breaker"]) == (None, "closed")


def test_status_says_how_often_items_are_visited(windlass, depot, line):
    assert line("stock").rstrip().endswith("every 10d")


def test_a_pause_comes_before_all_other_reasons(windlass, depot, status):
    windlass("pause", "price", "--who", "ada")

    assert status("price")["why"].startswith("paused by ada")


def test_a_reason_is_shown_as_it_is_and_never_as_a_style(windlass, depot, line):
    windlass("pause", "stock", "--reason", "[bold]see [/] ticket")

    assert "[bold]see [/] ticket" in line("stock")


@pytest.mark.parametrize("columns", [80, 140, 200])
def test_in_any_terminal_the_reason_can_be_read_and_nothing_is_lost(
    windlass, depot, monkeypatch, columns
):
    windlass("pause", "stock", "--reason", "server move", "--who", "root@warehouse")
    monkeypatch.setattr(output.console, "_width", columns)

    answer = windlass("status")

    lines = answer.out.splitlines()
    assert max(map(len, lines)) <= columns
    assert "…" not in answer.out
    begun = [line for line in lines if "paused by root@warehouse" in line]
    assert len(begun) == 1
    assert sum(line.startswith("stock ") for line in lines) == (2 if columns == 80 else 1)
    for word in ("kind", "why", "waiting", "due", "running", "failed", "done 1h", "average"):
        assert word in answer.out


# Groups, everything and ends


@pytest.fixture
def sale(depot):
    """The depot with a kind in a group."""

    @depot.app.task(group="sale")
    def discount() -> None: ...

    return depot


def test_pause_of_everything_asks_first(windlass, sale, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))

    answer = windlass("pause")

    assert answer.code == 1
    assert "Pause everything (4 kinds)?" in answer.err
    assert "nothing was paused" in answer.err
    assert count(sale.app, switch) == 0


def test_pause_of_everything_does_not_ask_with_yes(windlass, sale, line):
    answer = windlass("pause", "--yes", "--who", "ada", "--until", "06:00")

    assert (answer.code, answer.out) == (0, "✓ everything is paused until 06:00 UTC\n")
    assert "everything paused by ada until 06:00 UTC" in line("stock")
    assert windlass("resume").out == "✓ everything is resumed\n"
    assert "paused" not in line("stock")


def test_a_group_is_paused_by_its_name_and_what_stays_paused_is_told(windlass, sale):
    windlass("pause", "stock")
    assert windlass("pause", "--group", "sale").out == "✓ group sale is paused\n"

    answer = windlass("resume", "--group", "sale")

    assert answer.out == "✓ group sale is resumed; still paused: stock\n"


def test_a_kind_that_is_resumed_says_what_still_holds_it(windlass, sale):
    windlass("pause", "--group", "sale", "--who", "ada", "--until", "2026-01-05 04:00")

    answer = windlass("resume", "discount")

    assert answer.out == (
        "✓ discount is resumed; group sale paused by ada until 2026-01-05 04:00 UTC\n"
    )


def test_a_pause_of_a_group_as_json_is_its_switch(windlass, sale):
    found = windlass("pause", "--group", "sale", "--who", "ada", "--until", "06:00", "--json").json

    assert found.pop("since").startswith("2026-01-01T00:00:30")
    assert found.pop("until").startswith("2026-01-01T06:00:00")
    assert found.pop("held_back") == "group sale paused by ada until 06:00 UTC"
    assert found == {
        "name": "group:sale",
        "group": "sale",
        "kinds": ["discount"],
        "off": True,
        "reason": None,
        "who": "ada",
    }


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["pause", "--group", "sal"], 1, "group 'sal' is not known; groups: sale"),
        (["resume", "--group", "sal"], 1, "group 'sal' is not known; groups: sale"),
        (["pause", "stock", "--group", "sale"], 2, "give the kind 'stock' or --group 'sale'"),
        (["pause", "stock", "--until", "soon"], 2, "until='soon' cannot be read"),
        (["pause", "stock", "--until", "2000-01-01"], 1, "until='2000-01-01' has passed"),
        (["set", "stock", "--window", "not 2026-02-30"], 2, "February 2026 has 28 days"),
    ],
)
def test_pauses_that_cannot_be_are_refused(windlass, sale, arguments, code, problem):
    answer = windlass(*arguments)

    assert answer.code == code
    assert problem in answer.err
    assert is_one_line(answer)
    assert count(sale.app, switch) == 0
