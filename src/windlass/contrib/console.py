"""The console inside another web application, which says who the user is.

The application asks its own login, and hands the request on with the name and the role of the
user. They travel in the scope of the request, where nothing that a client sends can put them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windlass.errors import BadInput
from windlass.view.role import Role, role_of

if TYPE_CHECKING:
    from windlass.app import App

Asgi = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]

USER = "windlass.user"
LONGEST_NAME = 100
# What a request is, without what the router of the application has added.
REQUEST = (
    "type", "asgi", "http_version", "method", "scheme", "path", "raw_path", "query_string",
    "headers", "client", "server", "extensions", "windlass.peer",
)  # fmt: skip


@dataclass(frozen=True)
class ConsoleUser:
    """Who uses the console: a name for the audit log, and what they may do there.

    A viewer may look; an operator may act, too; an admin may also make access tokens.
    """

    name: str
    role: str = Role.VIEWER

    def __post_init__(self) -> None:
        role_of(self.role)
        if not self.name or len(self.name) > LONGEST_NAME or not self.name.isprintable():
            raise BadInput(
                f"{self.name!r:.110} is not the name of a user; give 1 to {LONGEST_NAME} "
                "printable characters"
            )


class Hosted:
    """The console of an app for the users of the application around it."""

    def __init__(self, app: App, *, read_only: bool = False) -> None:
        # Raises if the packages of the console are not installed.
        import windlass.web

        windlass.web.create  # noqa: B018
        from windlass.web.credential import Credentials
        from windlass.web.proxy import ProxyUser
        from windlass.web.site import make

        class Told:
            """Single sign-on: the user is in the scope."""

            def user(self, scope: Any, _headers: object) -> ProxyUser | None:
                told: ConsoleUser | None = scope.get(USER)
                return None if told is None else ProxyUser(told.name, role_of(told.role))

        self._site: Asgi = make(app, Credentials(), proxy=Told(), read_only=read_only)

    async def serve(
        self, request: tuple[MutableMapping[str, Any], Any, Any], *, root: str, user: ConsoleUser
    ) -> None:
        """Answer a request (scope, receive, send) of this user; the console is below `root`."""
        scope, receive, send = request
        own = {name: scope[name] for name in REQUEST if name in scope}
        await self._site({**own, "root_path": root, "state": {}, USER: user}, receive, send)


def check_user(user: object) -> ConsoleUser | None:
    """What a `user` function of an application has returned."""
    if user is None or isinstance(user, ConsoleUser):
        return user
    raise BadInput(
        f"user= returned a {type(user).__name__}; return ConsoleUser(name, role), or None for "
        "a user who may not see the console"
    )
