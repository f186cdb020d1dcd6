"""The command `windlass callback`."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from windlass.cli.load import AppArgument, load_app
from windlass.cli.output import say


def callback(
    app: AppArgument,
    host: Annotated[str, typer.Option("--host", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="On which port.")] = 8765,
) -> None:
    """Receive results from external systems over HTTP, until Ctrl-C."""
    loaded = load_app(app)
    from windlass.external.command.server import CallbackServer

    loaded.prepare()
    server = CallbackServer(loaded.external, host, port)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    say(f"listening on http://{host}:{server.server_address[1]}/callback/...")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()
