"""The shop's own page, at /shop beside the console: products with their quantity, orders, alerts.

A tiny app of its own. It is opened by the session of the console, and its actions need the token of
that session, as those of the console do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import Field, StringConstraints
from starlette.routing import Mount, Route

from windlass.demo.inbox import Inbox, Letter
from windlass.demo.market import Market, Sale
from windlass.demo.routine import Diary
from windlass.demo.till import Offer, PageOrder, Till
from windlass.web.access import AccessGate
from windlass.web.problem import handle_problems
from windlass.web.request import Console
from windlass.web.right import OPERATORS, VIEWERS, Roles, tree
from windlass.web.view import RequestBody

PATH = "/shop"
LONGEST_CODE = 40
MOST_PIECES = 20
FILES = {"": "text/html", "shop.js": "text/javascript", "shop.css": "text/css"}

Code = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_CODE)]


class Glimpse(RequestBody):
    """A product that a customer looks at."""

    code: Code


class Purchase(RequestBody):
    """What a customer buys."""

    code: Code
    pieces: Annotated[int, Field(ge=1, le=MOST_PIECES)] = 1


class Swap(RequestBody):
    """One piece of an order that a customer exchanges; a repeated `click` counts once."""

    order: Code
    click: Code
    back: Code
    out: Code


class Cancellation(RequestBody):
    """The order that a customer cancels."""

    order: Code


@dataclass(frozen=True)
class ShopView:
    """Everything on the page."""

    offers: list[Offer]
    orders: list[PageOrder]
    inbox: list[Letter]
    sale: Sale | None
    news: list[str]


class ShopPage:
    """The routes of the page."""

    def __init__(self, till: Till, market: Market, inbox: Inbox, diary: Diary) -> None:
        self._till, self._market, self._inbox, self._diary = till, market, inbox, diary
        self.router = APIRouter()
        self.router.get("/state")(self.state)
        self.router.post("/look")(self.look)
        self.router.post("/buy")(self.buy)
        self.router.post("/exchange")(self.exchange)
        self.router.post("/cancel")(self.cancel)

    def state(self, request: Request, search: str = "") -> ShopView:
        """What the page shows."""
        return ShopView(
            offers=self._till.offers(search[:LONGEST_CODE]),
            orders=self._till.orders(_customer(request)),
            inbox=self._inbox.letters(),
            sale=self._market.sale,
            news=[note.text for note in reversed(self._diary.last())],
        )

    def look(self, body: Glimpse) -> dict[str, str]:
        """A customer looks at a product: a stale one is asked for."""
        return {"visit": self._till.look(body.code)}

    def buy(self, body: Purchase, request: Request) -> dict[str, str]:
        """Place an order."""
        return {"order": self._till.buy(_customer(request), body.code, body.pieces)}

    def exchange(self, body: Swap, request: Request) -> dict[str, str]:
        """Exchange a piece of an order."""
        customer = _customer(request)
        self._till.exchange(customer, body.order, body.click, back=body.back, out=body.out)
        return {"order": body.order}

    def cancel(self, body: Cancellation, request: Request) -> dict[str, int]:
        """Cancel an order."""
        return {"run": self._till.cancel(_customer(request), body.order)}


def open_shop(site: FastAPI, page: ShopPage) -> None:
    """Put the page beside the console of `site`."""
    console = site.state.console
    assert isinstance(console, Console)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    handle_problems(app)
    app.include_router(page.router)
    app.router.routes += [Route(f"/{name}", _file) for name in FILES]
    app.add_middleware(
        AccessGate,
        credentials=console.credentials,
        guesses=console.guesses,
        tokens=console.tokens,
        rights=tree(_rules()),
        below="",
        open_paths=frozenset(f"/{name}" for name in FILES),
        sessions=console.sessions,
    )
    # Before the pages of the console, which answer every other path.
    site.router.routes[:0] = [
        Route(PATH, lambda _: RedirectResponse(f"{PATH}/", 308)),
        Mount(PATH, app=app),
    ]


def _rules() -> Iterator[tuple[str, str, Roles]]:
    yield "GET", "/state", VIEWERS
    for path in ("/look", "/buy", "/exchange", "/cancel"):
        yield "POST", path, OPERATORS


def _customer(request: Request) -> str:
    name: str = request.state.actor.name
    return name


def _file(request: Request) -> Response:
    name = request.url.path.rpartition("/")[2]
    text = files("windlass.demo").joinpath("static", name or "index.html").read_text("utf-8")
    return Response(text, media_type=FILES[name], headers={"Cache-Control": "no-cache"})
