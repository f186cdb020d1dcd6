"""Makes the console of an app."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from fastapi import APIRouter, FastAPI

from windlass import __version__
from windlass.app import App
from windlass.errors import BadInput
from windlass.external import route as callback
from windlass.ledger.operate import Ledgers
from windlass.operate.task.wait import TaskWaiters
from windlass.operate.token.operate import FleetTokens
from windlass.watch import route as watch
from windlass.watch.operate.change import ChangeWatcher
from windlass.watch.operate.metric import AppMetrics
from windlass.web import session, static
from windlass.web.access import AccessGate, Shell
from windlass.web.credential import Credentials, Guesses, Sessions, check_secrets
from windlass.web.pace import RequestRate
from windlass.web.problem import handle_problems, problems
from windlass.web.proxy import Proxy, SingleSignOn
from windlass.web.request import Console
from windlass.web.right import API, CONSOLE, PLAIN

# Open to people who are not logged in.
OPEN = frozenset({"/api/session", "/api/openapi.json", "/api/health"})
# In the order of the OpenAPI document; a new face is one more line.
ROUTES = (
    "windlass.web.session",
    "windlass.watch.route:first",
    "windlass.rolling.route",
    "windlass.sweep.route",
    "windlass.queue.route",
    "windlass.flow.route",
    "windlass.control.route",
    "windlass.operate.ring.route",
    "windlass.operate.task.route",
    "windlass.operate.cron.route",
    "windlass.external.route:api",
    "windlass.ledger.route.ledger",
    "windlass.ledger.route.movement",
    "windlass.operate.switch.route",
    "windlass.operate.downstream.route",
    "windlass.watch.promise.route",
    "windlass.operate.token.route",
    "windlass.watch.route",
)


def create(
    app: App,
    *,
    secret: str | None = None,
    viewer_secret: str | None = None,
    proxy: Proxy | None = None,
    read_only: bool = False,
    rate: str | None = None,
) -> FastAPI:
    """The console of `app`, to be served or mounted.

    People log in with the secret, which has at least 16 characters, or with an access token. A
    person with the `viewer_secret` may look and not act; with `read_only` no person may act. With a
    trusted `proxy`, which says who the user is, a secret is not needed. `rate`, such as "100/s", is
    how many requests each token of the role producer may send.
    """
    if secret is None and proxy is None:
        raise BadInput(
            "windlass.web.create makes no console without a secret; give "
            "create(app, secret=...) at least 16 characters, as `openssl rand -base64 32` prints "
            "them, or run `windlass console`, which prints a link that logs you in"
        )
    check_secrets(secret, viewer_secret)
    credentials = Credentials(secret, viewer_secret)
    return make(app, credentials, proxy=proxy, read_only=read_only, rate=rate)


def make(
    app: App,
    credentials: Credentials,
    *,
    proxy: SingleSignOn | None = None,
    read_only: bool = False,
    rate: str | None = None,
) -> FastAPI:
    """The console of `app` that these credentials open."""
    tokens = FleetTokens(app.fleet)
    console = Console(
        app=app,
        credentials=credentials,
        sessions=Sessions(credentials.session_keys(), tokens),
        guesses=Guesses(),
        tokens=tokens,
        read_only=read_only,
        changes=ChangeWatcher(app.fleet),
        ledgers=Ledgers(app.fleet),
        metrics=AppMetrics(app),
        waiters=TaskWaiters(app.fleet),
    )
    site = FastAPI(
        title="Windlass",
        summary="See everything, act on anything.",
        version=__version__,
        openapi_url="/api/openapi.json",
        # These pages load scripts from other sites.
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
    )
    site.state.console = console
    handle_problems(site)
    site.router.routes += [
        *_routes().routes,
        *callback.router.routes,
        *session.link.routes,
        *watch.plain.routes,
        *static.router.routes,
    ]
    site.add_middleware(
        AccessGate,
        credentials=credentials,
        guesses=console.guesses,
        tokens=tokens,
        rights=CONSOLE,
        below=API,
        open_paths=OPEN,
        beside=frozenset(PLAIN),
        sessions=console.sessions,
        proxy=proxy,
        read_only=read_only,
        pace=None if rate is None else RequestRate(rate),
    )
    site.add_middleware(Shell)
    return site


@cache
def _routes() -> APIRouter:
    """All routes, put together once for all consoles of a process."""
    api = APIRouter(prefix=API, responses=problems(400, 401, 403, 413, 415, 422, 429, 503))
    for name in ROUTES:
        module, _, router = name.partition(":")
        api.include_router(getattr(import_module(module), router or "router"))
    return api
