"""`windlass status`, `alerts`, `check`, `migrate`, and finding the app."""

import json
import re
import sqlite3

import pytest

from tests.core.fetch.dead import Doomed
from tests.core.ring.silent import mark_dead
from tests.table import count
from windlass import __version__
from windlass.app import FACES
from windlass.cli.output import print_json
from windlass.database import migrate

pytestmark = pytest.mark.mostly("sqlite", "postgresql")

BAD_OPTION = """
from windlass import App

app = App("sqlite://")

@app.task(retries=-1)
def work(): ...
"""


def test_status_shows_kinds_workers_and_failures(windlass, shop):
    shop.send_mail.enqueue("nobody")
    shop.app.drain()
    shop.quick.enqueue()

    answer = windlass("status")

    assert answer.code == 0
    for text in ("send_mail", "quick", "nightly", "0 3 * * * Asia/Shanghai", "no worker"):
        assert text in answer.out
    assert "No worker is running." in answer.out
    assert "ValueError: no such address" in answer.out


def test_status_as_json_counts(windlass, shop):
    shop.send_mail.enqueue("nobody")
    shop.app.drain()
    shop.quick.enqueue_many([{}] * 3)
    shop.quick.using(delay="1h").enqueue()

    found = windlass("status", "--json").json

    assert found["schema"] == migrate.VERSION
    kinds = {kind["kind"]: kind for kind in found["kinds"]}
    assert set(kinds) == {"send_mail", "quick", "refuse", "nightly"}
    assert (kinds["quick"]["waiting"], kinds["quick"]["due"]) == (4, 3)
    assert (kinds["send_mail"]["failed"], kinds["send_mail"]["failed_last_hour"]) == (1, 1)
    assert kinds["nightly"]["cron"] == "0 3 * * * Asia/Shanghai"
    assert kinds["nightly"]["next_due_at"].endswith("+00:00")
    assert found["workers"] == []
    assert [failure["kind"] for failure in found["failures"]] == ["send_mail"]


def test_status_shows_the_workers_that_are_there(windlass, shop):
    living = Doomed(shop.app)

    (worker,) = windlass("status", "--json").json["workers"]

    assert (worker["id"], worker["host"], worker["pid"]) == (living.number, "gone", 1)
    assert str(living.number) in windlass("status").out


def test_status_hides_the_password_of_the_database(windlass, write_module):
    module = write_module(
        "from windlass import App\n"
        "app = App('postgresql://ada:sesame@127.0.0.1:1/shop?connect_timeout=1')\n"
    )

    answer = windlass("migrate", "--sql", "--app", f"{module}:app")

    assert answer.code == 0
    assert "sesame" not in answer.out + answer.err


def test_alerts_of_nothing_say_so(windlass, shop):
    assert "No alerts" in windlass("alerts").out
    assert windlass("alerts", "--json").json == []


def test_alerts_show_poison(windlass, shop):
    ref = shop.quick.enqueue()
    shop.app.database.write(
        lambda connection: connection.exec_driver_sql("update windlass_task set lost_in_a_row = 2")
    )
    doomed = Doomed(shop.app)
    doomed.take()
    shop.app.database.write(
        lambda connection: connection.exec_driver_sql("update windlass_worker set lease_until = 1")
    )

    mark_dead(
        shop.app.database, FACES, number=doomed.number, now=shop.app.clock.now(), why="silent"
    )
    shop.app.drain()

    (alert,) = windlass("alerts", "--json").json

    assert (alert["what"], alert["kind"], alert["task_id"]) == ("poison", "quick", ref.id)
    assert alert["raised_at"].endswith("+00:00")
    assert "poison" in windlass("alerts").out


@pytest.mark.usefixtures("good_sqlite")
def test_check_of_a_good_app_has_nothing_to_say(windlass, shop):
    answer = windlass("check")

    assert answer.code == 0
    assert "4 kinds, 0 errors, 0 warnings" in answer.out
    assert windlass("check", "--json").json == []


@pytest.mark.usefixtures("good_sqlite")
def test_check_finds_everything_at_once(windlass, write_module, sqlite_url):
    module = write_module(
        "from windlass import App, Csv\n"
        f"app = App({sqlite_url!r})\n"
        "@app.task(timeout='1s')\n"
        "def loose(anything): ...\n"
        "@app.task(rate='1/m')\n"
        "def slow(): ...\n"
        "@app.sweep(Csv('missing.csv', key='id'))\n"
        "def line(row): ...\n"
    )

    answer = windlass("check", "--json", "--app", f"{module}:app")

    found = {(each["level"], each["about"]): each["text"] for each in answer.json}
    assert answer.code == 1
    assert "no annotation on anything" in found["warning", "loose"]
    assert "several may still overlap" in found["warning", "slow"]
    assert "its source cannot be swept" in found["error", "line"]
    shown = windlass("check", "--app", f"{module}:app")
    assert shown.code == 1
    assert "3 kinds, 1 error, 2 warnings" in shown.out


def test_check_finds_that_the_tables_are_missing(windlass, write_module, empty_database_url):
    module = write_module(
        f"from windlass import App\napp = App({empty_database_url!r})\n"
        "@app.task(timeout='1s')\ndef work(): ...\n"
    )

    answer = windlass("check", "--app", f"{module}:app")

    if empty_database_url.startswith("sqlite"):
        assert answer.code == 0
    else:
        assert answer.code == 1
        assert "has no Windlass tables yet; run: windlass migrate" in answer.out


@pytest.mark.usefixtures("good_sqlite")
def test_check_of_an_empty_app_warns(windlass, write_module, sqlite_url):
    module = write_module(f"from windlass import App\napp = App({sqlite_url!r})\n")

    (found,) = windlass("check", "--json", "--app", f"{module}:app").json

    assert (found["level"], found["about"]) == ("warning", "app")


def test_migrate_makes_the_tables_once(windlass, write_module, empty_database_url):
    module = write_module(f"from windlass import App\napp = App({empty_database_url!r})\n")

    first = windlass("migrate", "--json", "--app", f"{module}:app")
    second = windlass("migrate", "--json", "--app", f"{module}:app")
    third = windlass("migrate", "--app", f"{module}:app")

    assert (first.code, first.json["from"], first.json["to"]) == (0, None, migrate.VERSION)
    assert (second.json["from"], second.json["to"]) == (migrate.VERSION, migrate.VERSION)
    assert "is up to date" in third.out


def test_migrate_sql_prints_and_changes_nothing(windlass, write_module, empty_database_url):
    module = write_module(f"from windlass import App\napp = App({empty_database_url!r})\n")

    answer = windlass("migrate", "--sql", "--app", f"{module}:app")

    assert answer.code == 0
    assert "CREATE TABLE windlass_task" in answer.out
    made = windlass("migrate", "--json", "--app", f"{module}:app").json
    assert made["from"] is None
    as_json = windlass("migrate", "--sql", "--json", "--app", f"{module}:app").json
    # The name of the shard is made up anew each time.
    name = re.compile(r"(?<=VALUES \(1, ')\w{16}(?=')")
    assert name.sub("", as_json["sql"]) == name.sub("", answer.out)


@pytest.mark.parametrize(
    "command", [["task", "list"], ["status"], ["migrate"], ["check"], ["alerts"]]
)
def test_without_an_app_a_command_asks_for_one(windlass, command):
    answer = windlass(*command)

    assert answer.code == 2
    assert "which app? give --app module:app, or set WINDLASS_APP" in answer.err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere:app", "module 'nowhere' was not found"),
        ("{module}:nope", "has no 'nope'"),
        ("{module}:nothing", "is int, not a windlass.App"),
        ("os.path:join", "is function, not a windlass.App"),
        (":app", "module"),
        ("", "module"),
    ],
)
def test_an_app_that_cannot_be_found_is_a_usage_error(windlass, shop, name, said):
    answer = windlass("status", "--app", name.format(module=shop.__name__))

    assert answer.code == 2
    assert said in answer.err
    assert "Traceback" not in answer.err


def test_app_is_what_a_module_is_asked_for_by_default(windlass, shop):
    assert windlass("status", "--json", "--app", shop.__name__).code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import not_there\n", "No module named 'not_there'"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("def broken(:\n", "SyntaxError"),
        (BAD_OPTION, "retries=-1"),
        ("from windlass import App\napp = App('oracle://x')\n", "'oracle' is not supported"),
        ("raise SystemExit(3)\n", "SystemExit"),
    ],
)
def test_a_module_that_does_not_import_says_where_it_broke(windlass, write_module, text, said):
    module = write_module(text)

    answer = windlass("status", "--app", f"{module}:app")

    assert answer.code == 2
    assert said in answer.err
    assert module in answer.err
    assert "Traceback" not in answer.err


def test_a_database_that_cannot_be_reached_is_one_line(windlass, write_module):
    module = write_module(
        "from windlass import App\nfrom windlass.database import database\n"
        "database.FIRST_PAUSE = 0.001\n"
        "app = App('postgresql://ada:sesame@127.0.0.1:1/shop')\n"
        "@app.task\ndef work(): ...\n"
    )

    answer = windlass("task", "list", "--app", f"{module}:app")

    assert answer.code == 1
    assert answer.err.startswith("error: postgresql")
    assert "sesame" not in answer.err
    assert "Traceback" not in answer.err


def test_tables_of_a_newer_windlass_are_refused_with_the_cure(windlass, write_module, sqlite_url):
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as raw:
        raw.execute("update windlass_version set version_num = '9999'")
    raw.close()
    module = write_module(
        f"from windlass import App\napp = App({sqlite_url!r})\n@app.task\ndef work(): ...\n"
    )

    for command in (["task", "list"], ["migrate"]):
        answer = windlass(*command, "--app", f"{module}:app")
        assert answer.code == 1
        assert "version 9999" in answer.err
        assert "upgrade Windlass" in answer.err


def test_the_version_is_told(windlass):
    answer = windlass("--version")

    assert (answer.code, answer.out.strip()) == (0, f"windlass {__version__}")


def test_help_lists_the_commands(windlass):
    answer = windlass("--help")

    assert answer.code == 0
    for command in ("worker", "dev", "migrate", "check", "status", "alerts", "task", "demo"):
        assert command in answer.out


@pytest.mark.parametrize("arguments", [["no-such-command"], ["task", "burn"], ["status", "--wat"]])
def test_what_does_not_exist_is_a_usage_error(windlass, shop, arguments):
    assert windlass(*arguments).code == 2
    assert count(shop.app) == 0


def test_bytes_are_in_hexadecimal_for_programs_too(capfdbinary):
    print_json({"key": b"\xff\x00", "parts": (b"\x01", 7)})

    assert json.loads(capfdbinary.readouterr().out) == {"key": "ff00", "parts": ["01", 7]}
