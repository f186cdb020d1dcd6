"""The whole tree of commands: each that needs an app takes it in both forms."""

import pytest

from windlass.cli import command
from windlass.cli.commands import app_in_place

pytestmark = pytest.mark.mostly("sqlite")

APP = "shop:app"
# What needs no app: they make one, print a script, or run a demo.
WITHOUT_APP = {"completion", "demo", "init"}


def leaves(group, path=()):
    for name in group.list_commands(None):
        _, found, _ = group.resolve_command(None, [name])
        if hasattr(found, "list_commands"):
            yield from leaves(found, (*path, name))
        else:
            yield " ".join((*path, name)), found


COMMANDS = dict(leaves(command()))


def words_of(found):
    """A word for each argument that must be typed, beside the app."""
    wanted = [each for each in found.params if each.param_type_name == "argument"]
    return ["7" for each in wanted if each.name != "app" and each.required]


def parted(found, typed):
    """The app that a command gets, and the other words."""
    placed = app_in_place(found, list(typed))
    (app,) = [each for each in found.params if each.name == "app"]
    if app.param_type_name == "argument":
        return placed[0], placed[1:]
    if placed[0] == "--app":
        return placed[1], placed[2:]
    return placed[0].removeprefix("--app="), placed[1:]


def test_only_these_commands_take_no_app():
    without = {
        path for path, found in COMMANDS.items() if "app" not in {p.name for p in found.params}
    }

    assert without == WITHOUT_APP


@pytest.mark.parametrize("path", sorted(COMMANDS.keys() - WITHOUT_APP))
def test_a_command_takes_the_app_in_both_forms(monkeypatch, path):
    monkeypatch.delenv("WINDLASS_APP", raising=False)
    found = COMMANDS[path]
    words = words_of(found)

    forms = [["--app", APP, *words], [f"--app={APP}", *words], [APP, *words]]

    assert [parted(found, typed) for typed in forms] == [(APP, words)] * 3


@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_a_flag_shows_no_type(path):
    found = COMMANDS[path]
    words = ["7", "--", "true"] if path == "run" else []
    with found.make_context("it", words, resilient_parsing=True) as context:
        assert "<bool>" not in found.get_help(context)
        assert "BOOLEAN" not in found.get_help(context)
