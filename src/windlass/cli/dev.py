"""`windlass dev`: a worker and the console, restarted when the code changes."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import typer

from windlass.cli.console import HostOption, PortOption, SecretOption, make_console
from windlass.cli.early import end_quietly
from windlass.cli.load import AppArgument, load_app
from windlass.cli.log import set_up_logs
from windlass.cli.output import complain, say
from windlass.cli.supervise import Supervisor
from windlass.cli.worker import (
    ConcurrencyOption,
    KindOption,
    LogOption,
    leave,
    run_worker,
    show,
    terminal,
)
from windlass.errors import WindlassError
from windlass.fork import CHILD

if TYPE_CHECKING:
    from windlass.app import App


def register(cli: typer.Typer) -> None:
    cli.command()(dev)


def dev(
    app: AppArgument,
    concurrency: ConcurrencyOption = None,
    kind: KindOption = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8484,
    secret: SecretOption = None,
    as_json: LogOption = False,
) -> None:
    """Run one worker and the console, and restart them when the code changes."""
    end_quietly()
    if CHILD in os.environ:
        loaded = load_app(app)
        loaded.prepare()
        made = loaded.worker(kinds=kind, concurrency=concurrency)
        with _beside(loaded, host=host, port=port, secret=secret):
            code = run_worker(made, loaded, as_json=as_json)
        leave(code)
    console = terminal(as_json=as_json)
    set_up_logs(as_json=as_json, console=console)
    # Chosen once, so that a restarted process uses the same port.
    free = _free_port(host, port, has_secret=bool(secret))
    supervisor = Supervisor([*sys.argv[1:], "--port", str(free)], processes=1, reload=True)
    sys.exit(show(supervisor, None, console))


def _free_port(host: str, port: int, *, has_secret: bool) -> int:
    """`port` if it is free, else another port; prints the address of the console."""
    try:
        from windlass.web.serve import bind, check_host, url_of
    except WindlassError as problem:
        complain(str(problem))
        return port
    check_host(host, has_secret=has_secret)
    try:
        bound = bind(host, port)
    except WindlassError:
        # Another program uses it, maybe another `windlass dev`.
        bound = bind(host, 0)
    with bound:
        say(f"The console is at {url_of(bound)}.")
        return int(bound.getsockname()[1])


def _beside(
    app: App, *, host: str, port: int, secret: str | None
) -> AbstractContextManager[object]:
    """The console, served beside the worker if its extra is installed."""
    try:
        from windlass.web.serve import Beside

        return Beside(*make_console(app, host=host, port=port, secret=secret))
    except WindlassError as problem:
        complain(str(problem))
        return nullcontext()
