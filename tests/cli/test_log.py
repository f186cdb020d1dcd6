"""The logs of real processes: a worker leaves the logging of its user alone."""

import json
import os
import sys

import pytest

from tests.spawn import run_forked
from windlass.cli.log import is_set_up

pytestmark = pytest.mark.mostly("sqlite")

SHOP = """
import logging
{set_up}
from windlass import App

log = logging.getLogger("shop.mail")
app = App({url!r})

@app.task(retries=0, logs=5)
def send_mail(to: str) -> None:
    log.info("to %s", to)
    log.warning("slow server")
    raise ValueError("no such address")
"""
BASIC = 'logging.basicConfig(level=logging.INFO, format="MINE %(levelname)s %(message)s")'
DICT = """
import logging.config
logging.config.dictConfig({
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"mine": {"format": "DICT %(name)s %(message)s %(kind)s %(task)s"}},
    "filters": {"task": {"()": "windlass.logging.ContextFilter"}},
    "handlers": {"err": {"class": "logging.StreamHandler", "formatter": "mine",
                         "filters": ["task"]}},
    "root": {"level": "INFO", "handlers": ["err"]},
})
"""
OWN_LOGGER = """
import logging.config
logging.config.dictConfig({
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"mine": {"format": "OWN %(message)s"}},
    "handlers": {"err": {"class": "logging.StreamHandler", "formatter": "mine"}},
    "loggers": {"shop": {"level": "INFO", "handlers": ["err"], "propagate": False}},
})
"""


@pytest.fixture
def run(write_module, folder, sqlite_url):
    """Run a worker in a process of its own on a shop with this set-up; what it printed."""

    def run(set_up, *arguments, **environment):
        name = write_module(SHOP.format(set_up=set_up, url=sqlite_url))
        command = [sys.executable, "-m", "windlass"]
        given = {**os.environ, **environment}
        enqueue = ["task", "enqueue", "send_mail", '{"to": "ada"}', "--app", f"{name}:app"]
        run_forked([*command, *enqueue], cwd=folder, env=given)
        worker = ["worker", f"{name}:app", "--once", *arguments]
        return run_forked([*command, *worker], cwd=folder, env=given).stderr

    return run


def test_an_app_with_a_basic_config_keeps_it(run):
    lines = run(BASIC).splitlines()

    assert "MINE INFO to ada" in lines
    assert "MINE WARNING slow server" in lines
    (failed,) = [line for line in lines if " failed " in line]
    assert failed.startswith("MINE ERROR task send_mail ")
    assert failed.endswith("failed (attempt 1 of 1): ValueError: no such address")
    assert any("in send_mail" in line for line in lines)
    assert all(line.startswith(("MINE ", "Traceback", " ", "ValueError")) for line in lines)
    assert not any("alembic" in line.lower() or "Context impl" in line for line in lines)


def test_an_app_with_a_dict_config_keeps_it_and_may_use_the_filter(run):
    lines = run(DICT).splitlines()

    (said,) = [line for line in lines if "slow server" in line]
    name, text, kind, number = said.split(" ", 1)[1].replace("slow server", "slow_server").split()
    assert (name, text, kind) == ("shop.mail", "slow_server", "send_mail")
    assert number.isdigit()
    assert all(line.startswith(("DICT ", "Traceback", " ", "ValueError")) for line in lines)


def test_a_configuration_without_a_root_handler_counts_too(run):
    lines = run(OWN_LOGGER).splitlines()

    assert lines[:2] == ["OWN to ada", "OWN slow server"]
    # Errors of Windlass are printed by Python's handler of last resort: the bare text.
    assert any(line.startswith("task send_mail ") for line in lines)
    assert not any(" info " in line or "worker" in line for line in lines)


def test_without_a_configuration_there_is_a_plain_one_that_names_the_task(run):
    lines = run("").splitlines()

    (said,) = [line for line in lines if "slow server" in line]
    assert "kind=send_mail" in said
    assert "attempt=1" in said
    assert not any("to ada" in line for line in lines)
    (failed,) = [line for line in lines if " failed " in line]
    assert " error   task send_mail " in failed
    assert any("in send_mail" in line for line in lines)


def test_json_lines_keep_tracebacks_loggers_and_ids(run):
    lines = [json.loads(line) for line in run("", "--json").splitlines()]

    said = next(line for line in lines if line["message"] == "slow server")
    failed = next(line for line in lines if line["event"] == "task.failed")
    assert (said["logger"], said["kind"]) == ("shop.mail", "send_mail")
    assert said["task"] == failed["task"]
    assert failed["logger"] == "windlass"
    assert "in send_mail" in failed["exception"]
    assert failed["error"] == "ValueError: no such address"


def test_json_of_an_app_that_logs_by_itself_is_refused_in_its_own_way(run):
    lines = run(BASIC, "--json").splitlines()

    assert "MINE WARNING --json is ignored" in lines[0]
    assert "windlass.logging.JsonFormatter" in lines[0]


def test_the_level_is_set_by_the_environment(run):
    lines = run("", WINDLASS_LOG="debug").splitlines()

    assert any("task send_mail" in line and "started (attempt 1)" in line for line in lines)


def test_info_is_kept_with_a_run_though_it_is_not_printed(run, windlass, folder):
    run("")
    name = next(folder.glob("shop_*.py")).stem
    (row,) = windlass("task", "list", "--app", f"{name}:app", "--json").json

    show = ("task", "show", str(row["id"]), "--app", f"{name}:app")
    shown = windlass(*show, "--logs")
    found = windlass(*show, "--search", "ADA", "--json")

    assert "shop.mail: to ada" in shown.out
    assert "shop.mail: slow server" in shown.out
    (run_log,) = found.json["logs"]
    assert [line["text"] for line in run_log["lines"]] == ["to ada"]
    assert run_log["attempt"] == 1


def test_what_counts_as_set_up():
    code = "import logging, windlass.cli.log as log\n{}\nprint(log.is_set_up())"

    def answer(set_up):
        return run_forked([sys.executable, "-c", code.format(set_up)]).stdout.strip()

    assert answer("") == "False"
    assert answer("logging.getLogger('shop').setLevel('INFO')") == "False"
    assert answer("logging.getLogger('windlass').addHandler(logging.NullHandler())") == "False"
    assert answer("logging.getLogger('windlass').addHandler(logging.StreamHandler())") == "True"
    assert answer("logging.basicConfig()") == "True"
    assert answer("import logging.config; logging.config.dictConfig({'version': 1})") == "True"
    assert is_set_up() is True
