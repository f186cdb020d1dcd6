"""`windlass console`: the web console of an app and its API."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windlass.cli.early import end_quietly
from windlass.cli.load import AppArgument, load_app
from windlass.cli.log import set_up_logs
from windlass.cli.output import complain, say

if TYPE_CHECKING:
    from windlass.app import App

HostOption = Annotated[str, typer.Option("--host", help="The address to listen on.")]
PortOption = Annotated[
    int, typer.Option("--port", min=0, max=65_535, help="The port; 0 picks a free port.")
]
# All users can see options in the process list, so the environment is safer.
SecretOption = Annotated[
    str | None,
    typer.Option(
        "--secret",
        envvar="WINDLASS_CONSOLE_SECRET",
        show_envvar=True,
        help="The secret to log in with; required to listen beyond this machine.",
    ),
]
ViewerSecretOption = Annotated[
    str | None,
    typer.Option(
        "--viewer-secret",
        envvar="WINDLASS_CONSOLE_VIEWER_SECRET",
        show_envvar=True,
        help="A second secret, for people who may view but not act.",
    ),
]
ReadOnlyOption = Annotated[bool, typer.Option("--read-only", help="View only: nobody may act.")]

SHORT = 12


def register(cli: typer.Typer) -> None:
    cli.command()(console)


def console(
    app: AppArgument,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8484,
    secret: SecretOption = None,
    viewer_secret: ViewerSecretOption = None,
    read_only: ReadOnlyOption = False,
) -> None:
    """Serve the web console of an app."""
    end_quietly()
    loaded = load_app(app)
    site, bound = make_console(
        loaded,
        host=host,
        port=port,
        secret=secret,
        viewer_secret=viewer_secret,
        read_only=read_only,
    )
    from windlass.web.serve import serve, url_of

    set_up_logs(as_json=False, console=None)
    loaded.prepare()
    lock = "anyone on this machine may act" if secret is None else "log in with the secret"
    say(f"The console is at {url_of(bound)}; {'read-only' if read_only else lock}.")
    serve(site, bound)
    loaded.close()


def make_console(
    app: App,
    *,
    host: str,
    port: int,
    secret: str | None,
    viewer_secret: str | None = None,
    read_only: bool = False,
) -> tuple[Any, socket.socket]:
    """The console of an app, and the socket to serve it on."""
    from windlass.web import create
    from windlass.web.serve import bind, check_host, is_loopback

    secret, viewer_secret = secret or None, viewer_secret or None
    check_host(host, has_secret=secret is not None)
    if secret is not None and len(secret) < SHORT and not is_loopback(host):
        complain(f"a secret of less than {SHORT} characters is easy to guess; use a longer one")
    site = create(app, secret=secret, viewer_secret=viewer_secret, read_only=read_only)
    return site, bind(host, port)
