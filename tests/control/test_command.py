"""`windlass control list|show|release|reset`."""

import os
import re

import pytest

from tests.cli.terminal import Terminal, shown
from windlass import App
from windlass.control.model.control import RunStatus

pytestmark = pytest.mark.mostly("sqlite", "postgresql")


def fail_at(shop, *steps, name="load", partition=""):
    shop.app.control.start(name, partition, data={"file": "a.csv"})
    for step in steps:
        shop.app.control.step(name, step, partition)
    shop.app.control.error(name, "OSError: disk full\n\nTraceback: here", partition)


def test_the_list_tells_who_runs_what_and_how_the_rest_ended(windlass, shop):
    fail_at(shop, 1, "parse", partition="2026-11")
    shop.app.control.start("sync")

    answer = windlass("control", "list")
    found = windlass("control", "list", "--json").json

    assert answer.code == 0
    assert re.search(r"load +2026-11 +failed +parse .*OSError: disk full", answer.out)
    assert re.search(rf"sync +- +running .* {os.getpid()}\b", answer.out)
    assert "Traceback" not in answer.out
    assert [(run["name"], run["partition"], run["status"]) for run in found] == [
        ("load", "2026-11", -1),
        ("sync", "", 8),
    ]


def test_an_empty_list_says_so(windlass, shop):
    assert "Nothing was ever started" in windlass("control", "list").out
    assert windlass("control", "list", "--json").json == []


def test_the_list_can_be_of_one_name_or_of_what_runs_or_failed(windlass, shop):
    fail_at(shop, partition="a")
    shop.app.control.start("load", "b")
    shop.app.control.start("sync")
    shop.app.control.start("report")
    shop.app.control.finish("report")

    def listed(*arguments):
        found = windlass("control", "list", *arguments, "--json").json
        return [(run["name"], run["partition"]) for run in found]

    assert listed("load") == [("load", "a"), ("load", "b")]
    assert listed("--running") == [("load", "b"), ("sync", "")]
    assert listed("--failed") == [("load", "a")]
    assert listed("load", "--running") == [("load", "b")]
    assert listed("--running", "--failed") == [("load", "a"), ("load", "b"), ("sync", "")]
    assert windlass("control", "list", "nothing").out == "No such run.\n"


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_the_list_keeps_every_status_whole_however_long_a_name_is(sqlite_shop, columns):
    fail_at(sqlite_shop, "parse", name="x" * 255, partition="2026-11-16/eu-central-1")
    fail_at(sqlite_shop, "parse", name="nightly-load-of-all-recordings-from-the-european-warehouse")
    sqlite_shop.app.control.start("sync", expires="1h")

    text = shown("control", "list", columns=columns)

    assert max(map(len, text.splitlines())) <= columns
    assert re.findall(r"  (failed|running)  ", text) == ["failed", "running", "failed"]
    assert text.count("parse") == 2
    assert text.count("OSError: disk") == 2
    assert f"{os.getpid()}" in text
    assert "x" * 24 in text


@pytest.mark.parametrize("columns", [80, 200])
def test_show_has_a_line_for_each_try_and_step_on_any_terminal(sqlite_shop, columns):
    long = "OSError: No space left on device while writing /var/lib/backup/2026-11-16/shop.sql"
    for _ in range(3):
        with pytest.raises(OSError, match="No space"), sqlite_shop.app.control("load") as run:
            run.step("download", dict, path="/srv/" + "deep/" * 30)
            run.step("pack")
            raise OSError(long.removeprefix("OSError: "))

    text = shown("control", "show", "load", columns=columns)

    assert re.search(r'^download +done .*\{"path": "/srv/deep', text, re.MULTILINE)
    assert re.search(r"^pack +not finished ", text, re.MULTILINE)
    assert f"\n{long}\n\nTraceback" in text
    table = text[text.index("earlier tries") :].rstrip().splitlines()
    assert re.match(r"earlier tries +status +took +try +step .*error", table[0])
    assert [re.search(r"failed .* (\d) +pack .*OSError: No space", line)[1] for line in table[1:]]
    assert len(table) == 3
    assert max(map(len, table)) <= columns


def test_show_prints_the_steps_where_it_stopped_and_the_error(windlass, shop):
    fail_at(shop, 1, "parse")

    answer = windlass("control", "show", "load")
    found = windlass("control", "show", "load", "--json").json

    assert answer.code == 0
    assert re.search(r"stopped at step +parse", answer.out)
    assert re.search(r"^1 +done .*\d(us|ms|s)", answer.out, re.MULTILINE)
    assert re.search(r"^parse +not finished", answer.out, re.MULTILINE)
    assert re.search(r'^data +\{"file": "a.csv"\} *$', answer.out, re.MULTILINE)
    assert "Traceback: here" in answer.out
    assert "earlier tries" not in answer.out
    assert [(step["step"], step["seconds"] >= 0) for step in found["steps"]] == [
        (1, True),
        ("parse", True),
    ]
    assert (found["data"], found["tries"]) == ({"file": "a.csv"}, 1)
    assert [run["status"] for run in found["history"]] == [-1]


def test_show_tells_of_a_run_that_has_expired_that_it_runs_still(windlass, sqlite_shop):
    sqlite_shop.app.control.start("load", expires="1us")

    answer = windlass("control", "show", "load")

    assert re.search(r"^status +running, expired", answer.out, re.MULTILINE)
    assert re.search(r"^expired +\d{4}-", answer.out, re.MULTILINE)
    assert re.search(r"^running for +\d", answer.out, re.MULTILINE)


def test_names_are_shown_so_that_they_can_be_copied_and_obeyed_by_nobody(windlass, sqlite_shop):
    with sqlite_shop.app.control("esc\x1b[31mred\n[bold]", ":smile: part") as run:
        run.step(":rocket:")
        run.step("1")

    listed = windlass("control", "list").out
    answer = windlass("control", "show", "esc\x1b[31mred\n[bold]", "--partition", ":smile: part")

    for text in (listed, answer.out):
        assert "esc\\x1b[31mred\\n[bold]" in text
        assert ":smile: part" in text
        assert '"1"' in text
        assert "\x1b[31m" not in text
    assert ":rocket:" in answer.out


def test_what_was_never_started_is_not_found(windlass, shop):
    shop.app.control.start("load", "2026-11")
    shop.app.control.start("sync")

    assert windlass("control", "show", "load").err == (
        "error: control 'load' was never started; try --partition '2026-11'\n"
    )
    assert windlass("control", "show", "sync", "--partition", "p").err == (
        "error: control 'sync' ('p') was never started; it was started without a partition\n"
    )
    nothing = windlass("control", "release", "nothing", "--yes")
    assert (nothing.code, nothing.err) == (1, "error: control 'nothing' was never started\n")


def test_release_frees_a_run_and_fences_its_holder_off(windlass, shop):
    shop.app.control.start("load", "p")

    answer = windlass("control", "release", "load", "--partition", "p", "--yes")

    row = shop.app.control.get("load", "p")
    assert (answer.code, row.status) == (0, RunStatus.FAILED)
    assert re.fullmatch(r"released by .+@.+", row.error)
    assert shop.app.control.finish("load", "p").code == 451
    assert shop.app.control.start("load", "p").data["tries"] == 2


def test_release_of_what_has_ended_says_how_it_ended(windlass, shop):
    fail_at(shop)

    answer = windlass("control", "release", "load", "--yes")

    assert answer.code == 1
    assert re.fullmatch(
        r"error: control 'load': there is nothing to release: it failed .*\n", answer.err
    )


@pytest.mark.parametrize(("key", "status"), [("y", RunStatus.FAILED), ("n", RunStatus.RUNNING)])
def test_release_asks_first_and_says_that_it_stops_nobody(sqlite_shop, key, status):
    sqlite_shop.app.control.start("load", expires="1h")
    sqlite_shop.app.control.step("load", "parse")

    with Terminal("control", "release", "load", columns=200) as terminal:
        terminal.wait_for("Release it? [y/N]:")
        terminal.type(f"{key}\n")
        code = terminal.close()

    assert re.search(
        rf"{os.getpid()} has been running 'load' since .* at step 'parse'; it expires in \d+m",
        terminal.text,
    )
    assert "Releasing does not stop it" in terminal.text
    assert (code, sqlite_shop.app.control.get("load").status) == (int(key == "n"), status)


def test_release_frees_only_the_run_that_was_asked_about(sqlite_shop):
    sqlite_shop.app.control.start("load")

    with Terminal("control", "release", "load", columns=200) as terminal:
        terminal.wait_for("Release it?")
        sqlite_shop.app.control.finish("load")
        sqlite_shop.app.control.start("load")
        terminal.type("y\n")
        code = terminal.close()

    assert code == 1
    assert re.search(rf"it has ended meanwhile; .* {os.getpid()} runs it now", terminal.text)
    assert sqlite_shop.app.control.get("load").status is RunStatus.RUNNING


def test_release_has_nobody_to_ask_without_a_terminal(windlass_process, sqlite_shop):
    sqlite_shop.app.control.start("load")

    answer = windlass_process("control", "release", "load", "--json")

    assert (answer.code, answer.out) == (1, "")
    assert "error: nobody answers; use --yes" in answer.err
    assert sqlite_shop.app.control.get("load").status is RunStatus.RUNNING


def test_release_with_json_prints_the_run(windlass, shop):
    shop.app.control.start("load")

    found = windlass("control", "release", "load", "--yes", "--json").json

    assert (found["name"], found["status"]) == ("load", -1)


def test_reset_has_a_failed_run_start_over(windlass, shop):
    fail_at(shop, 1, "parse")

    answer = windlass("control", "reset", "load", "--yes")

    row = shop.app.control.get("load")
    assert (answer.code, row.status, row.steps, row.error) == (0, RunStatus.READY, (), None)
    assert re.search(r"load +- +ready", windlass("control", "list").out)
    assert len(windlass("control", "show", "load", "--json").json["history"]) == 1
    with shop.app.control("load") as run:
        assert (run.tries, run.data) == (1, None)
        assert run.batch > row.batch
        assert run.step(1)


def test_reset_asks_first_and_forgets_only_what_was_asked_about(sqlite_shop):
    fail_at(sqlite_shop, 1, "parse")

    with Terminal("control", "reset", "load", columns=200) as terminal:
        terminal.wait_for("Reset it?")
        sqlite_shop.app.control.start("load")
        sqlite_shop.app.control.error("load", "again")
        terminal.type("y\n")
        code = terminal.close()

    assert code == 1
    assert "with 1 step done. They are forgotten" in terminal.text
    assert "it was started meanwhile" in terminal.text
    assert len(sqlite_shop.app.control.get("load").steps) == 2


def test_reset_is_for_runs_that_failed(windlass, shop):
    shop.app.control.start("load")
    running = windlass("control", "reset", "load", "--yes")
    shop.app.control.finish("load")
    succeeded = windlass("control", "reset", "load", "--yes")

    assert (running.code, succeeded.code) == (1, 1)
    assert "is running it; release it first" in running.err
    assert "there is nothing to reset: it succeeded" in succeeded.err
    assert shop.app.control.get("load").status is RunStatus.SUCCEEDED


def test_a_bad_name_is_a_line_on_standard_error(windlass, shop):
    answer = windlass("control", "show", "")

    assert (answer.code, answer.out) == (1, "")
    assert answer.err == "error: control: the run has no name; give one of 1 to 255 characters\n"


def test_the_database_is_enough_where_no_app_is_named(windlass, database_url, monkeypatch):
    app = App(database_url)
    app.control.start("load")
    app.close()
    without = windlass("control", "list")

    monkeypatch.setenv("WINDLASS_DATABASE_URL", database_url)

    assert [run["name"] for run in windlass("control", "list", "--json").json] == ["load"]
    assert windlass("migrate").code == 0
    assert (without.code, windlass("status").code) == (2, 2)
    assert "or set WINDLASS_APP or WINDLASS_DATABASE_URL" in without.err


def test_show_has_the_data_of_steps_if_one_has_some(windlass, shop):
    fail_at(shop, 1)
    without = windlass("control", "show", "load").out
    shop.app.control.start("load")
    shop.app.control.step("load", 1, data={"row": 1200})

    answer = windlass("control", "show", "load")
    found = windlass("control", "show", "load", "--json").json

    assert not re.search(r"result +data", without)
    assert re.search(r"result +data", answer.out)
    assert '{"row": 1200}' in answer.out
    assert found["steps"][0]["data"] == {"row": 1200}
