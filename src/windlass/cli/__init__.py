"""The terminal: `windlass`. Each command says what it did, with --json as one JSON value."""

from __future__ import annotations

import sys
from functools import cache
from typing import Annotated

import typer
from sqlalchemy.exc import SQLAlchemyError

from windlass import __version__
from windlass.cli import console, demo, dev, early, init, worker
from windlass.cli.early import StoppedEarly
from windlass.cli.output import complain
from windlass.control.command import control, run
from windlass.errors import (
    BadBreaker,
    BadDuration,
    BadRate,
    BadSchedule,
    BadWindow,
    WindlassError,
)
from windlass.external.command import callback
from windlass.flow.command import flow
from windlass.ledger import command as ledger
from windlass.operate.ring import command as ring
from windlass.operate.shard import command as shard
from windlass.operate.switch import command as switch
from windlass.operate.task import command as task
from windlass.rolling import command as rolling
from windlass.sweep import command as sweep
from windlass.watch.alert import command as alert
from windlass.watch.audit import command as audit
from windlass.watch.check import command as migrate
from windlass.watch.status import command as status

# Options of which nobody can tell what was meant. Others may be refused for what the rows say.
UNREADABLE = (BadBreaker, BadDuration, BadRate, BadSchedule, BadWindow)

cli = typer.Typer(
    name="windlass",
    help="Durable background work on the database you already have.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
worker.register(cli)
dev.register(cli)
console.register(cli)
migrate.register(cli)
status.register(cli)
ring.register(cli)
switch.register(cli)
alert.register(cli)
audit.register(cli)
run.register(cli)
demo.register(cli)
init.register(cli)
callback.register(cli)
cli.add_typer(task.cli, name="task")
cli.add_typer(rolling.cli, name="rolling", no_args_is_help=True)
cli.add_typer(sweep.cli, name="sweep", no_args_is_help=True)
cli.add_typer(flow.cli, name="flow", no_args_is_help=True)
cli.add_typer(control.cli, name="control", no_args_is_help=True)
cli.add_typer(ledger.cli, name="ledger", no_args_is_help=True)
cli.add_typer(shard.cli, name="shard", no_args_is_help=True)


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
    """All commands, made from their functions once."""
    return typer.main.get_group(cli)


def main() -> None:
    """Run a command; an error is one line on standard error, and exit code 1 or, of usage, 2."""
    try:
        command()()
    except StoppedEarly:
        sys.exit(0)
    except WindlassError as problem:
        complain(str(problem))
        sys.exit(2 if isinstance(problem, UNREADABLE) else 1)
    except SQLAlchemyError as problem:
        complain(
            f"the database refused: {getattr(problem, 'orig', None) or problem}".splitlines()[0]
        )
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)
    finally:
        early.forget()
