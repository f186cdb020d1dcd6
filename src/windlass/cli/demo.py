"""`windlass demo`: a small shop with every face of Windlass, alive."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.cli.output import console


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command()(demo)


def demo(
    database: Annotated[
        str | None,
        typer.Option(
            "--database",
            metavar="URL",
            help="A server instead of a temporary file. The database must be empty: the tables "
            "windlass_* and shop_* are made in it, and removed at the end.",
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            "--port", min=0, max=65_535, help="Of the console; if it is taken, any that is free."
        ),
    ] = 8484,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=1, help="End after this many seconds.")
    ] = None,
) -> None:
    """Watch a small shop live: stock, orders, a catalogue, and much that goes wrong and heals.

    Two workers, a service that fails and a console, on SQLite in a temporary folder. Ctrl-C ends
    it, and no process and no file is left.
    """
    from windlass.demo.play import DemoOptions, play
    from windlass.demo.setting import pace

    play(DemoOptions(database, port, seconds, pace()), console)
