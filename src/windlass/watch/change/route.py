"""What changes, as it changes: server-sent events, and the same to be asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from windlass.errors import NotPossible
from windlass.watch.change.listen import Watch
from windlass.web.problem import problems
from windlass.web.request import ReadyConsole
from windlass.web.view import View

router = APIRouter(tags=["events"])

# Proxies close what is silent for long.
ALIVE_SECONDS = 15.0


class Marks(View):
    """A mark for each topic; what is behind a topic has changed when its mark has."""

    topics: dict[str, str]


@router.get("/changes")
def changes(console: ReadyConsole) -> Marks:
    """The marks of now: for those who cannot listen to events, to be asked for again and again."""
    return Marks(topics=console.watch.look())


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
    """What changes, as it changes: ask again for what is behind the topics."""
    if console.watch.is_full:
        raise NotPossible("too many listen already; ask for /api/changes now and then")
    return StreamingResponse(
        _told(request, console.watch, await console.watch.begin()),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _told(request: Request, watch: Watch, since: dict[str, str]) -> AsyncIterator[str]:
    yield "retry: 2000\n\n"
    async with watch.listening(since) as heard:
        while not await request.is_disconnected():
            try:
                topics = await asyncio.wait_for(heard.get(), ALIVE_SECONDS)
            except TimeoutError:
                yield ": alive\n\n"
                continue
            yield f"event: change\ndata: {json.dumps(sorted(topics))}\n\n"
