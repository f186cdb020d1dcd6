"""The routes of changes: server-sent events, and marks for clients that cannot listen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from windlass.errors import NotPossible
from windlass.watch.change.listen import ChangeWatcher
from windlass.web.problem import problems
from windlass.web.request import ReadyConsole
from windlass.web.view import View

router = APIRouter(tags=["events"])

# Proxies close connections that are silent for long.
ALIVE_SECONDS = 15.0


class Marks(View):
    """A mark for each topic; it changes when something of the topic changes."""

    topics: dict[str, str]


@router.get("/changes")
def changes(console: ReadyConsole) -> Marks:
    """The marks of now, for clients that cannot listen to events and ask again and again."""
    return Marks(topics=console.changes.marks())


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses=problems(409)
    | {
        200: {
            "description": "Events named `change`; the data is a JSON list of topics that changed.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
)
async def events(request: Request, console: ReadyConsole) -> StreamingResponse:
    """What changes, as it changes: read the named topics again."""
    if console.changes.is_full:
        raise NotPossible("there are too many listeners; ask for /api/changes now and then instead")
    return StreamingResponse(
        _events(request, console.changes, await console.changes.begin()),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _events(
    request: Request, watcher: ChangeWatcher, since: dict[str, str]
) -> AsyncIterator[str]:
    yield "retry: 2000\n\n"
    async with watcher.listening(since) as changes:
        while not await request.is_disconnected():
            try:
                topics = await asyncio.wait_for(changes.get(), ALIVE_SECONDS)
            except TimeoutError:
                yield ": alive\n\n"
                continue
            yield f"event: change\ndata: {json.dumps(sorted(topics))}\n\n"
