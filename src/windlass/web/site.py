"""Putting the console together."""

from __future__ import annotations

from fastapi import FastAPI

from windlass import __version__
from windlass.app import App
from windlass.errors import BadInput
from windlass.external.route import callback
from windlass.ledger.operate import Ledgers
from windlass.watch.change.listen import Watch
from windlass.web import static
from windlass.web.access import AccessGate
from windlass.web.problem import handle_problems
from windlass.web.request import Console
from windlass.web.route import routes
from windlass.web.session import Guesses, Sessions
from windlass.web.shell import Shell

LONGEST_SECRET = 1_000


def create(
    app: App,
    *,
    secret: str | None = None,
    viewer_secret: str | None = None,
    read_only: bool = False,
) -> FastAPI:
    """The console of `app`, to be served or mounted.

    Without a secret it answers this machine only. Whoever has the `viewer_secret` may look and not
    act; with `read_only` nobody may act.
    """
    _check(secret, viewer_secret)
    console = Console(
        app=app,
        sessions=Sessions(secret, viewer_secret),
        guesses=Guesses(),
        read_only=read_only,
        watch=Watch(app),
        ledgers=Ledgers(app.fleet),
    )
    site = FastAPI(
        title="Windlass",
        summary="See everything, act on anything.",
        version=__version__,
        openapi_url="/api/openapi.json",
        # Their pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
    )
    site.state.console = console
    handle_problems(site)
    site.router.routes += [
        *routes().routes,
        *callback.router.routes,
        *static.router.routes,
    ]
    site.add_middleware(
        AccessGate, sessions=console.sessions, guesses=console.guesses, read_only=console.read_only
    )
    site.add_middleware(Shell)
    return site


def _check(secret: str | None, viewer_secret: str | None) -> None:
    for name, given in (("secret", secret), ("viewer_secret", viewer_secret)):
        if given is not None and (not given.strip() or len(given) > LONGEST_SECRET):
            raise BadInput(f"the {name} is empty or too long; give 1 to {LONGEST_SECRET} letters")
    if viewer_secret is not None and secret is None:
        raise BadInput("a viewer_secret without a secret would lock nobody out; give both")
    if secret is not None and secret == viewer_secret:
        raise BadInput("secret and viewer_secret are the same; give two")
