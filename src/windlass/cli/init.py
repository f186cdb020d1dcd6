"""`windlass init`: writes a first file of tasks that runs unchanged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from windlass.cli.load import JsonOption
from windlass.cli.output import complain, done, print_json, say

STARTER = Path(__file__).with_name("starter.py")
NAME = "tasks"
OWN_NAME = re.compile(rf"\b{NAME}(?=\.py|\.db|:app)")


def register(cli: typer.Typer) -> None:
    cli.command()(init)


def init(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write.")] = f"{NAME}.py",
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a small file of tasks to start with, and say what to run next."""
    path = Path(file)
    module = _module(path)
    text = OWN_NAME.sub(module, STARTER.read_text(encoding="utf-8"))
    try:
        with path.open("w" if force else "x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        complain(
            f"{file} exists already, and nothing was written; give another name, as in "
            f"`windlass init my_tasks.py`, or --force to replace it"
        )
        raise typer.Exit(1) from None
    except OSError as problem:
        complain(f"{file} cannot be written: {problem.strerror or problem}")
        raise typer.Exit(1) from None
    commands = _commands(path, module)
    if as_json:
        print_json({"file": str(path), "next": list(commands)})
        return
    done(f"{file} is written: two tasks and a cron, with comments.")
    say("\nRun next:\n")
    width = max(map(len, commands))
    for command, meaning in commands.items():
        say(f"  {command:<{width}}  # {meaning}")


def _commands(path: Path, module: str) -> dict[str, str]:
    """Commands to run next, and what they do."""
    enter = {} if path.parent == Path() else {f"cd {path.parent}": "where the file is"}
    return enter | {
        f"python {path.name}": "enqueue some tasks and run them here",
        f"windlass worker {module}:app": "run tasks until Ctrl-C",
        f"windlass status --app {module}:app": "what runs, what waits and why",
    }


def _module(path: Path) -> str:
    """The module name of the file."""
    if path.suffix != ".py" or not re.fullmatch(r"[A-Za-z_]\w*", path.stem):
        complain(f"{path} cannot be imported; name it like {NAME}.py, with letters, digits and _")
        raise typer.Exit(2)
    return path.stem
