"""`windlass dev`: a worker and the console in one, started again whenever the code changes."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import nullcontext
from typing import Any

import typer

from windlass.app import App
from windlass.cli.console import HostOption, PortOption, SecretOption, make_console
from windlass.cli.load import AppArgument, load_app
from windlass.cli.log import set_up_logs
from windlass.cli.output import complain, say
from windlass.cli.supervise import CHILD, Supervisor
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

PORT = "WINDLASS_DEV_PORT"


def register(cli: typer.Typer) -> None:
    """Add the command."""
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
    """Run one worker and the console, and start them again whenever the code changes."""
    if CHILD in os.environ:
        loaded = load_app(app)
        loaded.prepare()
        made = loaded.worker(kinds=kind, concurrency=concurrency)
        with _beside(loaded, host=host, secret=secret):
            code = run_worker(made, loaded, as_json=as_json)
        leave(code)
    console = terminal(as_json=as_json)
    set_up_logs(as_json=as_json, console=console)
    _choose_port(host, port, has_secret=bool(secret), as_json=as_json)
    supervisor = Supervisor(sys.argv[1:], processes=1, reload=True)
    sys.exit(show(supervisor, None, console))


def _choose_port(host: str, port: int, *, has_secret: bool, as_json: bool) -> None:
    """Settle where the console is, once for all processes that follow each other."""
    try:
        from windlass.web.serve import bind, check_host, url_of
    except (ModuleNotFoundError, WindlassError):
        complain("there is no console without its extra; run: pip install 'windlass[console]'")
        return
    check_host(host, has_secret=has_secret)
    try:
        bound = bind(host, port)
    except WindlassError:
        # Somebody else has it, maybe another `windlass dev`.
        bound = bind(host, 0)
    with bound:
        os.environ[PORT] = str(bound.getsockname()[1])
        if not as_json:
            say(f"The console is at {url_of(bound)}.")


def _beside(app: App, *, host: str, secret: str | None) -> Any:
    if PORT not in os.environ:
        return nullcontext()
    from windlass.web.serve import Beside

    bound: socket.socket
    try:
        site, bound = make_console(app, host=host, port=int(os.environ[PORT]), secret=secret)
    except WindlassError as problem:
        complain(str(problem))
        return nullcontext()
    return Beside(site, bound)
