"""Write docs/reference/command.md: every command with its options, as the code has them.

    python -m scripts.commands

`make commands` does it, and a test compares the page with the code.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from windlass import cli

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "command.md"
HEAD = """# Every command and option

Made from the code by `make commands`. What the commands do, and what they print, is told in
[commands](cli.md). `MODULE:APP` says where the app is declared, and `$WINDLASS_APP` stands in for
it; `--json` prints one JSON value.
"""
# Told once, above.
SHARED = {"app", "as_json"}


def page() -> str:
    """The page as it should be."""
    commands = [section(names, command) for names, command in commands_of(root())]
    return "\n".join([HEAD, *commands])


def root() -> Any:
    return typer.main.get_command(cli.cli)


def commands_of(command: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Each command that is not hidden, with its full name, in the order of their names."""
    for name, below in sorted(getattr(command, "commands", {}).items()):
        if below.hidden:
            continue
        if not hasattr(below, "commands"):
            yield " ".join(("windlass", *names, name)), below
        yield from commands_of(below, (*names, name))


def section(name: str, command: Any) -> str:
    """One command: what it does, how it is typed, and what its options mean."""
    lines = [f"## {name}", "", f"`{synopsis(name, command)}`: {said(command.help)}", ""]
    rows = [row(each) for each in command.params if each.name not in SHARED]
    if rows:
        lines += ["| | default | |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)


def synopsis(name: str, command: Any) -> str:
    """The command with all it can be given."""
    arguments = [typed(each) for each in command.params if is_argument(each)]
    options = [f"[{typed(each)}]" for each in command.params if not is_argument(each)]
    return " ".join([name, *arguments, *options])


def row(parameter: Any) -> str:
    return f"| `{typed(parameter)}` | {default_of(parameter)} | {said(parameter.help)} |"


def is_argument(parameter: Any) -> bool:
    return parameter.param_type_name == "argument"


def typed(parameter: Any) -> str:
    """How an argument or an option is written."""
    more = "..." if parameter.multiple or parameter.nargs == -1 else ""
    if is_argument(parameter):
        name = (parameter.metavar or parameter.name.upper()) + more
        return name if parameter.required else f"[{name}]"
    names = "/".join([*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} {value_of(parameter)}{more}"


def value_of(parameter: Any) -> str:
    """What stands for the value of an option."""
    annotation = parameter.type_descriptor.annotation
    return parameter.metavar or ("N" if annotation in {int, float} else parameter.name.upper())


def default_of(parameter: Any) -> str:
    """What holds when it is not given."""
    value = getattr(parameter.default, "value", parameter.default)
    is_told = value is not None and value is not False and value != () and not callable(value)
    told = [str(value)] if is_told else []
    return ", ".join(told + ([f"`${parameter.envvar}`"] if parameter.envvar else []))


def said(help_text: str | None) -> str:
    """A help text in one line of a table."""
    return " ".join((help_text or "").replace("|", "\\|").split())


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
