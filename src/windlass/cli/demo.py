"""`windlass demo`: a live shop that uses every part of Windlass."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.cli.output import console


def register(cli: typer.Typer) -> None:
    cli.command()(demo)


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
) -> None:
    """Run a small live shop: stock, orders, a catalogue, failures and recovery.

    It has two workers, a service that fails and a console, on SQLite in a temporary folder. Ctrl-C
    stops it and removes everything.
    """
    from windlass.demo.play import DemoOptions, play
    from windlass.demo.setting import pace

    play(DemoOptions(database, port, seconds, pace()), console)
