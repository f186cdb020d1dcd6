"""How commands read what is typed: the app in either form, values by name, completion."""

import json
import os
import subprocess
import sys

import pytest

from tests.tidy.source import ROOT
from windlass.cli import command
from windlass.cli.commands import app_in_place, values_of

APP = "shop:app"


def found(*path):
    """A command of `windlass`."""
    group = command()
    for name in path:
        _, group, _ = group.resolve_command(None, [name])
    return group


@pytest.mark.parametrize(
    ("path", "typed", "wanted"),
    [
        (["status"], [APP], ["--app", APP]),
        (["status"], ["--json", APP], ["--app", APP, "--json"]),
        (["status"], ["--app", APP], ["--app", APP]),
        (["task", "list"], ["--kind", "a:b", APP], ["--app", APP, "--kind", "a:b"]),
        (["task", "show"], [APP, "7"], ["--app", APP, "7"]),
        (["flow", "start"], [APP, "cancel", "order=o:7"], ["--app", APP, "cancel", "order=o:7"]),
        (["flow", "start"], ["cancel", "order=o:7"], ["cancel", "order=o:7"]),
        (["worker"], ["--app", APP, "--concurrency", "7"], [APP, "--concurrency", "7"]),
        (["worker"], [f"--app={APP}"], [APP]),
        (["worker"], [APP], [APP]),
        (["consumer"], ["visits", "--app", APP], [APP, "visits"]),
        (["run"], ["name", "--", "echo", APP], ["name", "--", "echo", APP]),
    ],
)
def test_the_app_is_taken_in_both_forms(monkeypatch, path, typed, wanted):
    monkeypatch.delenv("WINDLASS_APP", raising=False)

    assert app_in_place(found(*path), list(typed)) == wanted


def test_with_an_app_in_the_environment_a_name_with_a_colon_stays_a_name(monkeypatch):
    monkeypatch.setenv("WINDLASS_APP", APP)

    assert app_in_place(found("control", "show"), ["load:parts"]) == ["load:parts"]
    assert app_in_place(found("status"), ["other:app"]) == ["--app", "other:app"]


def test_both_forms_work_from_end_to_end(windlass, sqlite_shop, monkeypatch):
    app = os.environ["WINDLASS_APP"]
    monkeypatch.delenv("WINDLASS_APP")

    assert windlass("task", "list", app, "--json").json == []
    assert windlass("task", "list", "--app", app, "--json").json == []
    assert windlass("task", "enqueue", app, "send_mail", "to=a@b.c").code == 0
    assert windlass("worker", "--app", app, "--help").code == 0


def test_values_are_given_by_name():
    assert values_of(["order=o-7", "copies=2", "rush=true"], {}) == {
        "order": "o-7",
        "copies": 2,
        "rush": True,
    }
    assert values_of(["code=007", "note="], {"code": str, "note": str}) == {
        "code": "007",
        "note": "",
    }
    assert values_of(['{"a": 1}'], {}) == {"a": 1}
    assert values_of([], {}) == {}


@pytest.mark.parametrize("typed", ["o-7", "a b=1", "=1"])
def test_a_value_without_a_name_is_refused(windlass, sqlite_shop, typed):
    refused = windlass("task", "enqueue", "send_mail", typed)

    assert refused.code == 2
    assert "neither JSON nor name=value" in refused.err


def test_flags_show_no_type(windlass, sqlite_shop):
    for arguments in (["--help"], ["task", "--help"], ["task", "list", "--help"]):
        assert "<bool>" not in windlass(*arguments).out


@pytest.mark.parametrize("columns", [60, 80])
def test_tables_obey_the_width_in_a_pipe(sqlite_shop, folder, columns):
    sqlite_shop.send_mail.using(key="order-7").enqueue("a@b.c" * 20)
    environment = {**os.environ, "COLUMNS": str(columns), "PYTHONPATH": str(ROOT / "src")}

    for arguments in (["status"], ["task", "list"]):
        shown = subprocess.run(
            [sys.executable, "-m", "windlass", *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        assert max(map(len, shown.splitlines())) <= columns


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("windlass task list --kind s", "send_mail"),
        ("windlass task enqueue qu", "quick"),
        ("windlass task list --status fai", "failed"),
        ("windlass pause night", "nightly"),
        ("windlass task ca", "cancel"),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_offered_commands_kinds_and_states(sqlite_shop, folder, shell, words, offered):
    assert offered in complete(shell, words)


def test_a_shell_is_offered_ids(sqlite_shop, folder):
    ref = sqlite_shop.send_mail.enqueue("a@b.c")

    assert str(ref.id) in complete("bash", "windlass task show ")
    assert str(ref.id) in complete("bash", "windlass task cancel ")


def test_a_completion_without_an_app_offers_nothing_and_says_nothing(folder):
    assert complete("bash", "windlass task show ", WINDLASS_APP="no:app") == ""


def complete(shell, words, **environment):
    """What a shell shows."""
    given = words.split(" ")
    result = subprocess.run(
        [sys.executable, "-m", "windlass"],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "_WINDLASS_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(given) - 1),
            "_TYPER_COMPLETE_ARGS": words,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    return result.stdout.strip()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(windlass, folder, shell):
    assert "_WINDLASS_COMPLETE" in windlass("completion", shell).out
    refused = windlass("completion", "powershell")
    assert (refused.code, "bash, zsh, fish" in refused.err) == (2, True)


def test_tasks_are_retried_and_cancelled_by_ids_and_by_kind(windlass, sqlite_shop):
    failed = [sqlite_shop.send_mail.enqueue("nobody") for _ in range(3)]
    sqlite_shop.app.drain()
    waiting = [sqlite_shop.quick.enqueue() for _ in range(4)]

    two = windlass("task", "retry", failed[0].id, failed[1].id, "--json").json
    assert two == [{"id": each.id, "status": "waiting"} for each in failed[:2]]
    assert windlass("task", "retry", "--kind", "send_mail", "--json").json == {"changed": 1}
    cancelled = windlass("task", "cancel", waiting[0].id, waiting[1].id)
    assert cancelled.code == 0
    assert "2 tasks are cancelled" in windlass("task", "cancel", "--kind", "quick").out
    assert "3 tasks are cancelled" in windlass("task", "cancel", "--since", "1h").out
    logged = json.dumps(windlass("audit", "--json").json)
    assert "3 tasks are cancelled" in logged


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["retry"], "which tasks?"),
        (["retry", "7", "--kind", "quick"], "either ids, or"),
        (["retry", "--kind", "quick", "--status", "waiting"], "is not one of failed, cancelled"),
        (["cancel", "--status", "waiting"], "which tasks?"),
    ],
)
def test_a_bulk_action_without_a_filter_is_refused(windlass, sqlite_shop, arguments, said):
    refused = windlass("task", *arguments)

    assert refused.code == 2
    assert said in refused.err
