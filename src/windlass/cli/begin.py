"""`windlass init` and `windlass demo`: a first file of tasks, and a live shop to look at."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from windlass.cli.load import JsonOption
from windlass.cli.output import console, done, print_json, refuse, say

STARTER = Path(__file__).with_name("starter.py")
NAME = "tasks"
OWN_NAME = re.compile(rf"\b{NAME}(?=\.py|\.db|:app)")


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
        refuse(
            f"{file} exists already, and nothing was written; give another name, as in "
            f"`windlass init my_tasks.py`, or --force to replace it",
            code=1,
        )
    except OSError as problem:
        refuse(f"{file} cannot be written: {problem.strerror or problem}", code=1)
    commands = _commands(path, module)
    if as_json:
        print_json({"file": str(path), "next": list(commands)})
        return
    done(f"{file} is written: two tasks and a cron, with comments.")
    say("\nRun next:\n")
    width = max(map(len, commands))
    for command, meaning in commands.items():
        say(f"  {command:<{width}}  # {meaning}")


def demo(
    database: Annotated[
        str | None,
        typer.Option(
            "--database",
            metavar="URL",
            help="Use this database instead of a temporary file. It must be empty: the demo "
            "creates tables windlass_* and shop_*, and removes them at the end.",
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            "--port", min=0, max=65_535, help="Port of the console; if it is used, any free port."
        ),
    ] = 8484,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=1, help="End after this many seconds.")
    ] = None,
    open_it: Annotated[
        bool, typer.Option("--open", help="Open the console in the browser, logged in by the link.")
    ] = False,
    broker: Annotated[
        str | None,
        typer.Option(
            "--broker",
            metavar="URL",
            help="Let products come and go by messages of this broker, amqp:// or redis://.",
        ),
    ] = None,
) -> None:
    """Run a small live shop: stock, orders, a catalogue, failures and recovery.

    It has two workers, a service that fails and a console, on SQLite in a temporary folder. The
    printed link logs you in at the console, once; the shop's own page is at /shop beside it. Ctrl-C
    stops it and removes everything.
    """
    from windlass.demo.play import play

    play(console, database=database, port=port, seconds=seconds, open_it=open_it, broker=broker)


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
        refuse(f"{path} cannot be imported; name it like {NAME}.py, with letters, digits and _")
    return path.stem
