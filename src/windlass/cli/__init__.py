"""The command line: `windlass`. Each command reports what it did; --json prints one JSON value.

A command imports engines and database drivers when it runs, so `windlass --help` imports none.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from windlass import __version__
from windlass.cli.begin import demo, init
from windlass.cli.commands import Commands
from windlass.cli.complete import COMPLETE, completion, is_completing
from windlass.cli.load import StoppedEarly, restore_signals
from windlass.cli.output import complain
from windlass.cli.process import console, dev, worker
from windlass.control.command.run import AfterDashes, run
from windlass.errors import BadBreaker, BadDuration, BadRate, BadSchedule, BadWindow, WindlassError
from windlass.external.command.callback import callback
from windlass.operate.ring.command import ring
from windlass.operate.switch.command import pause, resume, set_
from windlass.queue.command.consumer import consumer
from windlass.watch.command.alert import acknowledge, alerts
from windlass.watch.command.watch import audit, check, migrate, status, watch
from windlass.watch.promise.command.plan import plan

# Usage errors, exit code 2: options that cannot be read.
UNREADABLE = (BadBreaker, BadDuration, BadRate, BadSchedule, BadWindow)

# fmt: off
COMMANDS = (
    worker, consumer, dev, console, migrate, check, status, ring, pause, resume, set_, plan, alerts,
    acknowledge, audit, run, watch, demo, init, callback, completion,
)
# fmt: on
OPTIONS: dict[Any, dict[str, Any]] = {set_: {"name": "set"}, run: {"cls": AfterDashes}}
# The modules of groups of commands; each group has the name of its noun.
GROUPS = {
    "windlass.operate.task.command": "Show tasks, retry and cancel them, and enqueue new ones.",
    "windlass.operate.cron.command": "Show crons, run one now, and change its schedule.",
    "windlass.rolling.command": "Show rolling kinds and their items, and change them.",
    "windlass.sweep.command": "Show sweeps, their ranges and failed items, and act on them.",
    "windlass.flow.command.flow": "Start flows, and show, retry, skip and cancel their runs.",
    "windlass.control.command.control": (
        "Show control runs, release those that are stuck, reset those that failed."
    ),
    "windlass.queue.command.queue": "Show queues and failed messages, and retry or drop these.",
    "windlass.ledger.command": "Show the stock ledger, and check that its books balance.",
    "windlass.watch.promise.command.promise": "Show what kinds promise, and how that stands.",
    "windlass.watch.command.alert": "Show alerts, acknowledge them, and test channels.",
    "windlass.operate.downstream.command": "Show the systems that tasks call, and their limits.",
    "windlass.operate.shard.command": "Show the shards, drain one, and move rows.",
    "windlass.operate.token.command": "Make access tokens, show them, and revoke them.",
}


def _lazy_group(module: str) -> typer.Typer:
    """The commands of `module.cli`, imported on first use."""

    class LazyGroup(Commands):
        @property
        def commands(self) -> MutableMapping[str, Any]:
            if not self._commands:
                self._commands.update(typer.main.get_group(import_module(module).cli).commands)
            return self._commands

        @commands.setter
        def commands(self, given: MutableMapping[str, Any]) -> None:
            self._commands = given

    return typer.Typer(cls=LazyGroup)


cli = typer.Typer(
    name="windlass",
    cls=Commands,
    help="Durable background work on the database you already have.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for _command in COMMANDS:
    cli.command(**OPTIONS.get(_command, {}))(_command)
for _module, _help in GROUPS.items():
    _name = _module.removesuffix(".command").rpartition(".")[2]
    cli.add_typer(_lazy_group(_module), name=_name, help=_help, no_args_is_help=True)


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
def command() -> TyperGroup:
    """All commands, built once."""
    return typer.main.get_group(cli)


def main() -> None:
    """Run a command; an error is one line on standard error and exit code 1, or 2 for usage."""
    try:
        if is_completing():
            # The shells in which typer knows how to answer.
            import_module("typer._completion_classes").completion_init()
        command()(complete_var=COMPLETE)
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
        restore_signals()


def _is_of_database(problem: Exception) -> bool:
    errors = sys.modules.get("sqlalchemy.exc")
    return errors is not None and isinstance(problem, errors.SQLAlchemyError)
