"""`windlass rolling list|show|add|remove|visit|mirror|follow|unfollow`."""

import io
import sys
from contextlib import closing
from datetime import datetime, timedelta

import pytest

from tests.core.fetch.dead import Doomed
from tests.source.shop import Shop
from tests.table import count, tasks
from windlass import Status
from windlass.cli import output

pytestmark = pytest.mark.mostly("sqlite", "postgresql")

COMMANDS = ["add", "remove", "visit", "mirror", "follow", "unfollow", "show"]
PRODUCT = ("--table", "product", "--key", "code")
DAY = timedelta(days=1) // timedelta(microseconds=1)


@pytest.fixture
def product(database_url):
    """A table of products beside the items."""
    with closing(Shop(database_url)) as shop:
        shop.make(codes=["A", "B", "C"])
        yield shop


@pytest.fixture
def width(monkeypatch):
    """Make the terminal so many columns wide."""

    def make(columns: int) -> None:
        monkeypatch.setattr(output.console, "_width", columns)

    return make


def codes(depot, kind="stock"):
    return sorted(row["task_key"] for row in tasks(depot.app, kind=kind))


def is_one_line(answer):
    """An error as it should be: a line on standard error, and nothing else."""
    return (
        answer.out == ""
        and answer.err.startswith("error: ")
        and answer.err.count("\n") == 1
        and "Traceback" not in answer.err
    )


def arguments_of(command, kind):
    """The least that a command takes."""
    return {
        "add": ["add", kind, "A"],
        "remove": ["remove", kind, "A"],
        "visit": ["visit", kind, "A"],
        "mirror": ["mirror", kind, *PRODUCT],
        "follow": ["follow", kind, *PRODUCT],
        "unfollow": ["unfollow", kind, *PRODUCT],
        "show": ["show", kind],
    }[command]


# Adding and removing


def test_add_says_how_many_were_new(windlass, each_depot):
    first = windlass("rolling", "add", "stock", "A", "B")
    second = windlass("rolling", "add", "stock", "B", "C")

    assert (first.code, second.code) == (0, 0)
    assert first.out == "✓ added 2 items to stock\n"
    assert second.out == "✓ added 1 item to stock\n"
    assert codes(each_depot) == ["A", "B", "C"]


def test_remove_says_how_many_were_there(windlass, each_depot):
    each_depot.stock.add(["A", "B", "C"])

    answer = windlass("rolling", "remove", "stock", "A", "B", "Z")

    assert (answer.code, answer.out) == (0, "✓ removed 2 items from stock\n")
    assert codes(each_depot) == ["C"]


def test_add_and_remove_answer_as_json(windlass, depot):
    assert windlass("rolling", "add", "stock", "A", "B", "--json").json == {"added": 2}
    assert windlass("rolling", "add", "stock", "A", "--json").json == {"added": 0}
    assert windlass("rolling", "remove", "stock", "A", "--json").json == {"removed": 1}
    assert windlass("rolling", "remove", "stock", "A", "--json").json == {"removed": 0}


def test_add_now_hurries_an_item_that_was_visited(windlass, each_depot):
    each_depot.stock.add(["A"])
    each_depot.app.drain()
    (later,) = tasks(each_depot.app)
    assert later["due_at"] > each_depot.app.clock.now()

    windlass("rolling", "add", "stock", "A")
    assert tasks(each_depot.app) == [later]
    answer = windlass("rolling", "add", "stock", "A", "--now", "--json")

    (hurried,) = tasks(each_depot.app)
    assert answer.json == {"added": 0}
    assert hurried["due_at"] <= each_depot.app.clock.now()


def test_codes_keep_their_blanks_and_signs(windlass, each_depot):
    odd = ["A 1", " A", "A ", "[red]", "ä漢", "-7"]

    windlass("rolling", "add", "stock", "--", *odd)

    assert codes(each_depot) == sorted(odd)
    assert windlass("rolling", "remove", "stock", "A", "--json").json == {"removed": 0}
    assert windlass("rolling", "remove", "stock", "A ", "--json").json == {"removed": 1}


@pytest.mark.parametrize("command", ["add", "remove"])
def test_codes_come_from_a_file_one_a_line(windlass, depot, folder, command):
    depot.stock.add(["kept"] if command == "add" else ["kept", "A 1", "B", " C"])
    (folder / "codes.txt").write_bytes(b"A 1\n\nB\r\n C")

    answer = windlass("rolling", command, "stock", "--file", "codes.txt", "--json")

    assert answer.json == {"added" if command == "add" else "removed": 3}
    assert codes(depot) == ([" C", "A 1", "B", "kept"] if command == "add" else ["kept"])


def test_codes_come_from_standard_input(windlass, depot, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("A\n\nB 2\n"))

    answer = windlass("rolling", "add", "stock", "--file", "-")

    assert (answer.code, answer.out) == (0, "✓ added 2 items to stock\n")
    assert codes(depot) == ["A", "B 2"]


def test_the_mark_that_spreadsheets_begin_a_file_with_is_not_part_of_a_code(
    windlass, depot, folder
):
    (folder / "codes.csv").write_bytes(b"\xef\xbb\xbfA\r\nB\r\n")

    windlass("rolling", "add", "stock", "--file", "codes.csv")

    assert codes(depot) == ["A", "B"]


def test_an_empty_file_adds_nothing(windlass, depot, folder):
    (folder / "codes.txt").write_text("\n\n")

    answer = windlass("rolling", "add", "stock", "--file", "codes.txt")

    assert (answer.code, answer.out) == (0, "✓ added 0 items to stock\n")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("nowhere.txt", None, "--file nowhere.txt: No such file or directory"),
        (".", None, "--file .: Is a directory"),
        ("latin.txt", b"A\nM\xfcller\n", "--file latin.txt: not UTF-8 text"),
        ("long.txt", b"A\n" + b"x" * 300 + b"\n", "has 300 characters; at most 255 fit"),
        ("reserved.txt", b"A\nwindlass:cron\n", "'windlass:cron' is reserved"),
    ],
)
def test_a_file_that_cannot_be_used_adds_nothing(windlass, depot, folder, name, content, said):
    if content is not None:
        (folder / name).write_bytes(content)

    answer = windlass("rolling", "add", "stock", "--file", name)

    assert answer.code == 1
    assert said in answer.err
    assert is_one_line(answer)
    assert codes(depot) == []


@pytest.mark.parametrize("command", ["add", "remove"])
@pytest.mark.parametrize("given", [[], ["A", "--file", "codes.txt"]])
def test_codes_are_given_either_here_or_in_a_file(windlass, depot, folder, command, given):
    (folder / "codes.txt").write_text("B\n")

    answer = windlass("rolling", command, "stock", *given)

    assert answer.code == 2
    assert "give codes, or --file with one code a line" in answer.err
    assert is_one_line(answer)
    assert codes(depot) == []


@pytest.mark.parametrize("code", ["", "x" * 256, "windlass:cron"])
def test_a_code_that_cannot_be_one_is_refused_and_nothing_is_added(windlass, depot, code):
    answer = windlass("rolling", "add", "stock", "A", code, "--json")

    assert answer.code == 1
    assert is_one_line(answer)
    assert codes(depot) == []


# Which kind


@pytest.mark.parametrize("command", COMMANDS)
def test_a_kind_that_is_not_declared_is_refused(windlass, depot, command):
    answer = windlass("rolling", *arguments_of(command, "stok"))

    assert answer.code == 1
    assert (
        "kind 'stok' is not declared in this app; declared: price, send_mail, stock" in answer.err
    )
    assert is_one_line(answer)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_kind_that_is_not_rolling_is_refused(windlass, depot, command):
    answer = windlass("rolling", *arguments_of(command, "send_mail"))

    assert answer.code == 1
    assert "kind 'send_mail' is not rolling; rolling kinds: price, stock" in answer.err
    assert is_one_line(answer)
    assert count(depot.app) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["add"],
        ["visit", "stock"],
        ["mirror", "stock", "--table", "product"],
        ["follow", "stock", "--key", "code"],
        ["unfollow", "stock"],
        ["add", "stock", "A", "--later"],
        ["burn", "stock"],
    ],
)
def test_what_is_missing_or_too_much_is_a_usage_error(windlass, depot, arguments):
    answer = windlass("rolling", *arguments)

    assert (answer.code, answer.out) == (2, "")
    assert "Traceback" not in answer.err


def test_without_a_command_there_is_help(windlass):
    answer = windlass("rolling")

    for command in ("list", *COMMANDS):
        assert f" {command} " in answer.out + answer.err


def test_an_item_is_not_enqueued(windlass, depot):
    answer = windlass("task", "enqueue", "stock", '{"code": "A"}')

    assert answer.code == 1
    assert "kind 'stock' is rolling" in answer.err
    assert "windlass rolling add" in answer.err
    assert is_one_line(answer)
    assert count(depot.app) == 0


def test_an_item_is_not_cancelled(windlass, each_depot):
    each_depot.stock.add(["A"])
    (row,) = tasks(each_depot.app)

    answer = windlass("task", "cancel", row["id"])

    assert answer.code == 1
    assert "is the item 'A' of rolling 'stock'" in answer.err
    assert "remove it" in answer.err
    assert is_one_line(answer)
    assert tasks(each_depot.app) == [row]


# Looking


def test_list_shows_the_rolling_kinds_and_no_other(windlass, depot):
    depot.stock.add(["A", "B"])
    depot.app.drain()
    depot.stock.add(["C"])

    answer = windlass("rolling", "list")

    head, price, stock = answer.out.splitlines()
    assert answer.code == 0
    assert head.split() == [
        *("kind", "every", "items", "never", "due", "overdue", "oldest", "needed", "actual"),
        "forecast",
    ]
    assert price.split()[:8] == ["price", "1d", "0", "0", "0", "0", "-", "0"]
    assert "there is nothing to visit" in price
    assert stock.split()[:6] == ["stock", "10d", "3", "1", "1", "0"]
    assert stock.split()[7] == "0.3/d"
    assert "the 10-day promise breaks on Sunday 2026-01-11 00:00 UTC" in stock


def test_list_as_json_is_one_array_with_the_python_names(windlass, each_depot):
    each_depot.stock.add(["A", "B"])

    price, stock = windlass("rolling", "list", "--json").json

    assert (price["kind"], stock["kind"], stock["every"]) == ("price", "stock", "10d")
    assert (price["total"], price["forecast"]) == (0, "there is nothing to visit")
    assert (stock["total"], stock["never_visited"], stock["due"], stock["overdue"]) == (2, 2, 2, 0)
    assert 0 <= stock["oldest_age"] < 1
    assert stock["needed_rate"] == pytest.approx(2 / 864_000)
    assert (stock["actual_rate"], stock["head_room"]) == (0, None)
    assert stock["breaks_at"].startswith("2026-01-11T00:00:")
    assert datetime.fromisoformat(stock["breaks_at"]).tzinfo is not None


def test_list_says_that_there_is_no_rolling_kind(windlass, shop):
    assert "No rolling kind is declared" in windlass("rolling", "list").out
    assert windlass("rolling", "list", "--json").json == []


def test_show_has_the_same_facts_as_the_list_one_a_line(windlass, depot):
    depot.stock.add(["A", "B"])
    depot.app.clock.advance(11 * DAY)

    lines = windlass("rolling", "show", "stock").out.splitlines()

    facts = dict(line.split("  ", 1) for line in lines)
    facts = {name: value.strip() for name, value in facts.items()}
    assert facts["rolling"] == "stock"
    assert (facts["every"], facts["items"], facts["never visited"]) == ("10d", "2", "2")
    assert (facts["due"], facts["overdue"], facts["oldest"]) == ("2", "2", "11d")
    assert facts["actual rate"] == "0"
    assert facts["forecast"].startswith("the 10-day promise is broken: 2 items are overdue")


def test_show_as_json_is_the_entry_of_the_list(windlass, depot):
    depot.stock.add(["A", "B"])

    shown = windlass("rolling", "show", "stock", "--json").json
    listed = windlass("rolling", "list", "--json").json[1]

    moving = {"oldest_age": 0, "breaks_at": ""}
    assert {**shown, **moving} == {**listed, **moving}


def test_an_item_is_shown_with_its_last_visit(windlass, depot):
    depot.stock.add(["A 1", "broken"])
    depot.app.drain()

    good = windlass("rolling", "show", "stock", "A 1")
    bad = windlass("rolling", "show", "stock", "broken")

    assert good.code == bad.code == 0
    for text in ("A 1", "succeeded", "7 of A 1", "2026-01-01 00:00:30Z", "2026-01-11 00:00:30Z"):
        assert text in good.out
    for text in ("failed", "ValueError: no such product", "2026-01-01 01:00:30Z"):
        assert text in bad.out


def test_an_item_as_json_has_the_names_of_rows(windlass, each_depot):
    each_depot.stock.add(["A"])
    new = windlass("rolling", "show", "stock", "A", "--json").json
    each_depot.app.drain()
    visited = windlass("rolling", "show", "stock", "A", "--json").json

    assert (new["key"], new["status"], new["remark"]) == ("A", "waiting", None)
    assert (new["started_at"], new["finished_at"]) == (None, None)
    assert (visited["status"], visited["remark"]) == ("succeeded", "7 of A")
    finished, due = map(datetime.fromisoformat, (visited["finished_at"], visited["due_at"]))
    assert due - finished == timedelta(days=10)


def test_a_code_is_shown_as_it_is_and_never_as_a_style(windlass, depot):
    depot.stock.add(["[red]A", "[/]"])
    depot.app.drain()

    assert "[red]A" in windlass("rolling", "show", "stock", "[red]A").out
    assert "7 of [/]" in windlass("rolling", "show", "stock", "[/]").out


@pytest.mark.parametrize("arguments", [["show", "stock", "A"], ["visit", "stock", "A"]])
def test_an_item_that_is_not_there_is_refused(windlass, depot, arguments):
    answer = windlass("rolling", *arguments, "--json")

    assert answer.code == 1
    assert "rolling 'stock' has no item 'A'" in answer.err
    assert is_one_line(answer)


def test_in_a_narrow_terminal_nothing_of_the_list_is_lost(windlass, depot, width):
    depot.stock.add(["A"])

    width(80)
    answer = windlass("rolling", "list")

    lines = answer.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in answer.out
    assert [line.split()[0] for line in lines if line.startswith(("price", "stock"))] == [
        *("price", "stock"),
        *("price", "stock"),
    ]
    told = " ".join(answer.out.split())
    assert "the 10-day promise breaks on Sunday 2026-01-11 00:00 UTC because no worker" in told


# Visiting


def test_visit_runs_an_item_and_shows_what_came_of_it(windlass, depot):
    depot.stock.add(["A", "B"])

    answer = windlass("rolling", "visit", "stock", "A")

    assert answer.code == 0
    assert "succeeded" in answer.out
    assert "7 of A" in answer.out
    assert depot.stock.item("A").status is Status.SUCCEEDED
    assert depot.stock.item("B").finished_at is None


def test_visit_as_json_is_the_item(windlass, depot):
    depot.stock.add(["A"])

    visited = windlass("rolling", "visit", "stock", "A", "--json")

    assert visited.code == 0
    assert visited.json == windlass("rolling", "show", "stock", "A", "--json").json
    assert visited.json["remark"] == "7 of A"


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_visit_that_fails_is_shown_and_exits_with_1(windlass, depot, options):
    depot.stock.add(["broken"])

    answer = windlass("rolling", "visit", "stock", "broken", *options)

    assert answer.code == 1
    assert "failed" in answer.out
    assert "ValueError: no such product" in answer.out
    assert "Traceback" not in answer.out + answer.err
    if options:
        assert answer.json["status"] == "failed"


def test_an_item_that_is_fresh_is_not_visited_again(windlass, each_depot):
    each_depot.stock.add(["A"])
    first = windlass("rolling", "visit", "stock", "A", "--json").json
    each_depot.app.clock.advance(DAY)

    kept = windlass("rolling", "visit", "stock", "A", "--fresh", "2d", "--json").json
    again = windlass("rolling", "visit", "stock", "A", "--fresh", "1h", "--json").json

    assert kept == first
    assert again["finished_at"] > first["finished_at"]


def test_a_visit_of_a_paused_kind_is_refused_with_the_reason(windlass, depot):
    depot.stock.add(["A"])
    windlass("pause", "stock", "--reason", "stock-taking")

    answer = windlass("rolling", "visit", "stock", "A")

    assert answer.code == 1
    assert "kind 'stock' does not run now: paused by " in answer.err
    assert "ago: stock-taking" in answer.err
    assert is_one_line(answer)
    assert depot.stock.item("A").finished_at is None


def test_a_visit_that_does_not_end_in_time_is_refused(windlass, each_depot):
    each_depot.stock.add(["A"])
    Doomed(each_depot.app)

    answer = windlass("rolling", "visit", "stock", "A", "--timeout", "1ms")

    assert answer.code == 1
    assert "the visit of 'A' did not end in time" in answer.err
    assert is_one_line(answer)


@pytest.mark.parametrize("option", ["--fresh", "--timeout"])
def test_a_duration_of_a_visit_that_cannot_be_read_is_refused(windlass, depot, option):
    depot.stock.add(["A"])

    answer = windlass("rolling", "visit", "stock", "A", option, "soon")

    assert answer.code == 2
    assert f"{option.removeprefix('--')}: cannot read 'soon'" in answer.err
    assert is_one_line(answer)


# A table


def test_mirror_makes_the_items_equal_to_a_table(windlass, each_depot, product):
    each_depot.stock.add(["C", "D"])

    first = windlass("rolling", "mirror", "stock", *PRODUCT)
    second = windlass("rolling", "mirror", "stock", *PRODUCT)

    assert (first.code, first.out) == (0, "✓ stock: added 2, removed 1\n")
    assert (second.code, second.out) == (0, "✓ stock: added 0, removed 0\n")
    assert codes(each_depot) == ["A", "B", "C"]


def test_a_dry_run_only_counts(windlass, each_depot, product):
    each_depot.stock.add(["C", "D"])

    people = windlass("rolling", "mirror", "stock", *PRODUCT, "--dry-run")
    programs = windlass("rolling", "mirror", "stock", *PRODUCT, "--dry-run", "--json")

    assert people.out == "✓ stock: would add 2, would remove 1\n"
    assert programs.json == {"added": 2, "removed": 1, "dry_run": True}
    assert codes(each_depot) == ["C", "D"]
    done = windlass("rolling", "mirror", "stock", *PRODUCT, "--json")
    assert done.json == {"added": 2, "removed": 1, "dry_run": False}


def test_mirror_takes_a_table_of_another_database(windlass, depot, folder):
    url = f"sqlite:///{folder / 'elsewhere.db'}"
    with closing(Shop(url)) as elsewhere:
        elsewhere.make(codes=["X", "Y"])

    answer = windlass("rolling", "mirror", "stock", *PRODUCT, "--source", url, "--json")

    assert answer.json == {"added": 2, "removed": 0, "dry_run": False}
    assert codes(depot) == ["X", "Y"]


def test_follow_adds_and_removes_items_as_rows_come_and_go(windlass, each_depot, product):
    answer = windlass("rolling", "follow", "stock", *PRODUCT)
    product.insert("D", "E")
    product.delete("E")
    ended = windlass("rolling", "unfollow", "stock", *PRODUCT, "--json")

    assert (answer.code, answer.out) == (0, "✓ stock follows product; now mirror it once\n")
    assert (ended.code, ended.json) == (0, {"following": None})
    assert codes(each_depot) == ["D"]


def test_unfollow_ends_it_and_a_second_time_there_is_nothing_to_end(windlass, each_depot, product):
    assert windlass("rolling", "follow", "stock", *PRODUCT, "--json").json == {
        "following": "product"
    }

    first = windlass("rolling", "unfollow", "stock", *PRODUCT)
    second = windlass("rolling", "unfollow", "stock", *PRODUCT)
    product.insert("D")

    assert (first.code, first.out) == (0, "✓ stock no longer follows product\n")
    assert second.code == 1
    assert "stock does not follow product" in second.err
    assert is_one_line(second)
    assert codes(each_depot) == []


@pytest.mark.parametrize("command", ["mirror", "follow"])
@pytest.mark.parametrize(
    ("table", "key", "said"),
    [
        ("produkt", "code", "there is no such table; similar: product"),
        ("product", "kode", "has no column 'kode'; its columns: code, note"),
        ("a.b.c", "code", "is not the name of a table"),
        ("product", "", "is not a column"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(windlass, depot, command, table, key, said):
    with closing(Shop(depot.app.database.url)) as shop:
        shop.make()

    answer = windlass("rolling", command, "stock", "--table", table, "--key", key)

    assert answer.code == 1
    assert said in answer.err
    assert is_one_line(answer)
    assert count(depot.app) == 0


@pytest.mark.parametrize("command", ["mirror", "follow"])
@pytest.mark.parametrize("url", ["oracle://ada:secret@x/y", "no url", "sqlite:////nowhere/x.db"])
def test_a_source_that_cannot_be_used_is_refused_and_tells_no_password(
    windlass, depot, command, url
):
    answer = windlass("rolling", command, "stock", *PRODUCT, "--source", url)

    assert answer.code == 1
    assert is_one_line(answer)
    assert "secret" not in answer.err
