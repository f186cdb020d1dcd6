"""Whatever a user can type is told in the docs."""

import inspect
import re
from collections.abc import Iterator

import pytest
import typer

import windlass
from scripts import commands
from tests.tidy.source import ROOT
from windlass import cli, errors

SPEECHLESS = {"--help", "--install-completion", "--show-completion"}


@pytest.fixture(scope="module")
def docs() -> str:
    return "\n".join(path.read_text() for path in sorted((ROOT / "docs").rglob("*.md")))


def test_every_command_is_told(docs):
    commands = [" ".join(names) for names, _ in commands_of(root_command())]

    assert [name for name in commands if f"windlass {name}" not in docs] == []


def test_the_page_of_all_commands_is_what_the_code_has():
    told = commands.PAGE.read_text()

    assert told == commands.page(), "docs/reference/command.md is old; run: make commands"


def test_every_command_is_explained_under_a_heading_of_its_own():
    text = (ROOT / "docs/reference/cli.md").read_text()
    headings = re.findall(r"^#+ (windlass .*)$", text, re.MULTILINE)

    missing = [name for name, _ in commands.commands_of(commands.root()) if name not in headings]
    assert missing == []


def test_every_option_of_a_command_is_told(docs):
    options = {
        option
        for _, command in commands_of(root_command())
        for parameter in command.params
        if not getattr(parameter, "hidden", False)
        for option in parameter.opts
        if option.startswith("--") and option not in SPEECHLESS
    }

    assert [option for option in sorted(options) if not told(option, docs)] == []


@pytest.mark.parametrize(
    ("owner", "method"),
    [
        ("App", "__init__"),
        ("App", "task"),
        ("App", "cron"),
        ("App", "rolling"),
        ("App", "sweep"),
        ("Flow", "using"),
        ("App", "pause"),
        ("App", "set"),
        ("Task", "using"),
        ("Rolling", "add"),
        ("Rolling", "visit"),
        ("Rolling", "mirror"),
        ("Table", "__init__"),
        ("Sweep", "visit"),
        ("Csv", "__init__"),
        ("Pages", "__init__"),
        ("SearchIndex", "__init__"),
    ],
)
def test_every_keyword_is_told(owner, method, docs):
    function = getattr(getattr(windlass, owner), method)
    keywords = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "self" and parameter.kind in {parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL}
    ]

    assert [keyword for keyword in keywords if not told(keyword, docs)] == []


def test_every_error_is_told(docs):
    names = [
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and value.__module__ == errors.__name__
        if not name.startswith("_")
    ]

    assert [name for name in names if not told(name, docs)] == []


def told(word: str, docs: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", docs) is not None


def root_command():
    for value in vars(cli).values():
        if isinstance(value, typer.Typer):
            return typer.main.get_command(value)
    raise AssertionError("windlass.cli has no Typer application")


def commands_of(command, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Each command below `command` that is not hidden, with its full name."""
    for name, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield (*names, name), below
            yield from commands_of(below, (*names, name))
