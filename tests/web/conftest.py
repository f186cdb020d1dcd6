"""A shop on a clean database, and its console as somebody on this machine sees it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from starlette.testclient import TestClient

from windlass import App, Keys, web

SECRET = "correct horse battery staple"
VIEWER_SECRET = "only looking around here"


class Shop:
    """What the console is about."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.is_broken = True

        @app.task(retries=0, keep="1h", breaker="50 in a row, 10m", timeout="5s")
        def send_mail(to: str, copies: int = 1) -> str:
            """Send a mail."""
            if to == "nobody" and self.is_broken:
                raise ValueError("no such <b>address</b>")
            return f"sent to {to}"

        @app.task(name="odd/name ü", timeout="5s")
        async def odd() -> None: ...

        @app.rolling(every="10d", timeout="5s")
        def stock(code: str) -> str:
            return f"7 of {code}"

        @app.sweep(Keys(1, 100), ranges=2, timeout="5s")
        def offer(key: int) -> None:
            if key == 7 and self.is_broken:
                raise ValueError("seven is not for sale")

        self.send_mail, self.odd, self.stock, self.offer = send_mail, odd, stock, offer


class Console:
    """A browser with the console in it."""

    def __init__(self, site: Any, *, address: str = "127.0.0.1", host: str = "localhost") -> None:
        self.client = TestClient(
            site,
            base_url=f"http://{host}",
            client=(address, 50_000),
            raise_server_exceptions=False,
        )
        self.headers: dict[str, str] = {}

    def enter(self) -> "Console":
        """Have a session, as the page has when it is loaded."""
        self.headers["x-csrf-token"] = self.client.get("/api/session").json()["token"]
        return self

    def log_in(self, secret: str, name: str = "") -> Any:
        answer = self.client.post("/api/session", json={"secret": secret, "name": name})
        if answer.status_code == 200:
            self.headers["x-csrf-token"] = answer.json()["token"]
        return answer

    def get(self, path: str, **query: Any) -> Any:
        """What a face shows."""
        answer = self.client.get(f"/api/{path}", params=query or None)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def do(self, path: str, **body: Any) -> Any:
        """What an action answers."""
        answer = self.post(path, **body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, **body: Any) -> Any:
        return self.client.post(f"/api/{path}", json=body, headers=self.headers)


@pytest.fixture
def shop(database_url: str) -> Iterator[Shop]:
    """The shop on a clean database of each engine."""
    with closing(App(database_url)) as app:
        yield Shop(app)


@pytest.fixture
def sqlite_shop(sqlite_url: str) -> Iterator[Shop]:
    """The shop on SQLite, for what is the same on every database."""
    with closing(App(sqlite_url)) as app:
        yield Shop(app)


@pytest.fixture
def console(shop: Shop) -> Iterator[Console]:
    """The console of the shop, without a secret."""
    made = Console(web.create(shop.app)).enter()
    with made.client:
        yield made


@pytest.fixture
def browse(sqlite_shop: Shop) -> Iterator[Callable[..., Console]]:
    """Open a console of the shop on SQLite, as it is made with these options."""
    with ExitStack() as stack:

        def opened(*, address: str = "127.0.0.1", host: str = "localhost", **options: Any):
            made = Console(web.create(sqlite_shop.app, **options), address=address, host=host)
            stack.enter_context(made.client)
            return made

        yield opened
