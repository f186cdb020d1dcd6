"""Windlass in FastAPI and Starlette: a worker beside the application, sessions, the console.

    api = FastAPI(lifespan=lifespan(app, worker=True))
    api.include_router(console_router(app, user=current_admin), prefix="/windlass")
    Tasks = Annotated[Joined, Depends(join(get_session))]

`lifespan` and `console` need only Starlette.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

from windlass.contrib.console import Asgi, ConsoleUser, Hosted, check_user
from windlass.contrib.join import Joined
from windlass.contrib.keep import KeptWorker
from windlass.value.twin import twin

if TYPE_CHECKING:
    from fastapi import APIRouter

    from windlass.app import App

__all__ = ["ConsoleUser", "Joined", "console", "console_router", "join", "lifespan"]

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]
# Given the request, who the user is; None: a user who may not see the console.
UserOf = Callable[[Any], "ConsoleUser | Awaitable[ConsoleUser | None] | None"]

METHODS = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]


def lifespan(
    app: App,
    *,
    worker: bool = False,
    kinds: Sequence[str] | None = None,
    concurrency: int | None = None,
    inner: Lifespan | None = None,
) -> Lifespan:
    """The lifespan of an application that enqueues tasks; with `worker`, it also runs them.

    The worker runs on the event loop of the application, in each of its processes. At the end it
    waits for running tasks, up to the grace of the app. `inner` is a lifespan of your own, which
    begins after the tables are there and ends before the worker stops.
    """

    @asynccontextmanager
    async def around(application: Any) -> AsyncIterator[Any]:
        await twin(app.prepare)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(twin, app.close)
            if worker:
                kept = KeptWorker(lambda: app.worker(kinds=kinds, concurrency=concurrency))
                await stack.enter_async_context(_running(kept))
            yield None if inner is None else await stack.enter_async_context(inner(application))

    return around


@asynccontextmanager
async def _running(kept: KeptWorker) -> AsyncIterator[None]:
    """Keep a worker running while the block lasts."""
    running = asyncio.create_task(kept.run(), name="windlass worker")
    try:
        yield
    finally:
        kept.stop()
        await running


def join(session: Callable[..., Any]) -> Callable[..., Awaitable[Joined]]:
    """A dependency that enqueues in the transaction of the request's session.

    `session` is the dependency that gives the session, sync or async; FastAPI calls it once for a
    request. `Depends(join(get_session))` gives a `Joined`: `tasks(send_mail).enqueue(...)`, and
    `await tasks(send_mail).aenqueue(...)` for an async session.
    """
    from fastapi import Depends

    async def joined(session: Any) -> Joined:
        return Joined(session)

    joined.__annotations__["session"] = Annotated[Any, Depends(session)]
    return joined


def console_router(app: App, *, user: Callable[..., Any], read_only: bool = False) -> APIRouter:
    """A router with the console, to be included under a prefix of your choice.

    `user` is a dependency, such as the one that guards your own pages. It returns a ConsoleUser,
    or None for a user who may not see the console; what it raises is answered as elsewhere.
    """
    from fastapi import APIRouter, Depends, HTTPException, Request, Response

    hosted = Hosted(app, read_only=read_only)
    router = APIRouter(include_in_schema=False)

    class Handed(Response):
        """The answer of the console."""

        def __init__(self, known: ConsoleUser, root: str) -> None:
            super().__init__()
            self._known, self._root = known, root

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await hosted.serve((scope, receive, send), root=self._root, user=self._known)

    async def serve(request: Any, rest: str, known: Any) -> Response:
        known = check_user(known)
        if known is None:
            raise HTTPException(403, "you may not see the console")
        path = str(request.scope["path"])
        return Handed(known, path.removesuffix(rest).rstrip("/"))

    async def begin(request: Any) -> Response:
        return Response(status_code=307, headers={"location": f"{request.url.path}/"})

    # With postponed annotations FastAPI would look for these names in the module.
    serve.__annotations__["known"] = Annotated[Any, Depends(user)]
    for function in (serve, begin):
        function.__annotations__["request"] = Request
    router.add_api_route("/{rest:path}", serve, methods=METHODS, response_model=None)
    router.add_api_route("", begin, methods=["GET"], response_model=None)
    return router


def console(app: App, *, user: UserOf, read_only: bool = False) -> Asgi:
    """The console as an ASGI application, to be mounted: `Mount("/windlass", console(...))`.

    `user(request)`, sync or async, returns a ConsoleUser, or None for a person who may not see
    the console; an HTTPException that it raises is answered as elsewhere.
    """
    hosted = Hosted(app, read_only=read_only)
    from starlette.exceptions import HTTPException
    from starlette.requests import Request

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        given = user(Request(scope, receive))
        known = check_user(await given if inspect.isawaitable(given) else given)
        if known is None:
            raise HTTPException(403, "you may not see the console")
        await hosted.serve((scope, receive, send), root=scope.get("root_path", ""), user=known)

    return serve
