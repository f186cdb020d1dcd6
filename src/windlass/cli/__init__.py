"""The command line: `windlass`. Each command reports what it did; --json prints one JSON value.

A command imports engines and database drivers when it runs, so `windlass --help` imports none.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Annotated

import typer

from windlass import __version__
from windlass.cli import console, demo, dev, early, init, worker
from windlass.cli.early import StoppedEarly
from windlass.cli.group import lazy_group
from windlass.cli.output import complain
from windlass.control.command import run
from windlass.errors import BadBreaker, BadDuration, BadRate, BadSchedule, BadWindow, WindlassError
from windlass.external.command import callback
from windlass.operate.ring import command as ring
from windlass.operate.switch import command as switch
from windlass.watch.alert import command as alert
from windlass.watch.audit import command as audit
from windlass.watch.check import command as check
from windlass.watch.status import command as status

# Usage errors, exit code 2: options that cannot be read.
UNREADABLE = (BadBreaker, BadDuration, BadRate, BadSchedule, BadWindow)

# fmt: off
COMMANDS = (
    worker, dev, console, check, status, ring, switch, alert, audit, run, demo, init, callback,
)
# fmt: on
GROUPS = {
    "task": (
        "windlass.operate.task.command",
        "Show tasks, retry and cancel them, and enqueue new ones.",
    ),
    "rolling": (
        "windlass.rolling.command",
        "Show rolling kinds and their items, and change them.",
    ),
    "sweep": (
        "windlass.sweep.command",
        "Show sweeps, their ranges and failed items, and act on them.",
    ),
    "flow": (
        "windlass.flow.command.flow",
        "Start flows, and show, retry, skip and cancel their runs.",
    ),
    "control": (
        "windlass.control.command.control",
        "Show control runs, release those that are stuck, reset those that failed.",
    ),
    "ledger": (
        "windlass.ledger.command",
        "Show the stock ledger, and check that its books balance.",
    ),
    "shard": (
        "windlass.operate.shard.command",
        "Show the shards, drain one, and move rows.",
    ),
}

cli = typer.Typer(
    name="windlass",
    help="Durable background work on the database you already have.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for _module in COMMANDS:
    _module.register(cli)
for _name, (_module_name, _help) in GROUPS.items():
    cli.add_typer(lazy_group(_module_name), name=_name, help=_help, no_args_is_help=True)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"windlass {__version__}")
        raise typer.Exit


@cli.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Durable background work on the database you already have."""


@cache
def command() -> typer.core.TyperGroup:
    """All commands, built once."""
    return typer.main.get_group(cli)


def main() -> None:
    """Run a command; an error is one line on standard error and exit code 1, or 2 for usage."""
    try:
        command()()
    except StoppedEarly:
        sys.exit(0)
    except WindlassError as problem:
        complain(str(problem))
        sys.exit(2 if isinstance(problem, UNREADABLE) else 1)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as problem:
        if not _is_of_database(problem):
            raise
        complain(
            f"the database refused: {getattr(problem, 'orig', None) or problem}".splitlines()[0]
        )
        sys.exit(1)
    finally:
        early.forget()


def _is_of_database(problem: Exception) -> bool:
    errors = sys.modules.get("sqlalchemy.exc")
    return errors is not None and isinstance(problem, errors.SQLAlchemyError)
