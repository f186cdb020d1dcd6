"""The console behind a sync application: its answers, message by message, from a loop of its own.

All requests of a process are answered on one event loop, which runs on a thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any
from urllib.parse import quote

from windlass.fork import watch_forks

Scope = dict[str, Any]
# Given scope, receive and send.
Serve = Callable[[Scope, Any, Any], Coroutine[Any, Any, None]]
Message = dict[str, Any] | BaseException | None


class Bridge:
    """Calls an ASGI application from threads, or from other event loops."""

    def __init__(self) -> None:
        self.after_fork()
        watch_forks(self)

    def after_fork(self) -> None:
        """The parent's thread is not here."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def call(self, serve: Serve, scope: Scope, body: bytes) -> Answer:
        """The beginning of the answer; its body is read from `chunks`."""
        messages: SimpleQueue[Message] = SimpleQueue()
        request = self._begin(serve, scope, body, messages.put)
        try:
            return Answer(_start(messages.get()), request, messages)
        except BaseException:
            request.end()
            raise

    async def acall(self, serve: Serve, scope: Scope, body: bytes) -> AsyncAnswer:
        """`call`, awaited on any event loop."""
        loop = asyncio.get_running_loop()
        messages: asyncio.Queue[Message] = asyncio.Queue()

        def put(message: Message) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(messages.put_nowait, message)

        request = self._begin(serve, scope, body, put)
        try:
            return AsyncAnswer(_start(await messages.get()), request, messages)
        except BaseException:
            request.end()
            raise

    def _begin(
        self, serve: Serve, scope: Scope, body: bytes, put: Callable[[Message], None]
    ) -> _Request:
        request = _Request(body, put)
        loop = self._running_loop()
        request.answering = asyncio.run_coroutine_threadsafe(request.answer(serve, scope), loop)
        return request

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(
                    target=self._loop.run_forever, name="windlass-console", daemon=True
                )
                thread.start()
            return self._loop


class _Request:
    """One request, on the loop of the bridge."""

    def __init__(self, body: bytes, put: Callable[[Message], None]) -> None:
        self._body: bytes | None = body
        self._put = put
        self._is_gone = asyncio.Event()
        self.answering: Future[None] | None = None

    async def answer(self, serve: Serve, scope: Scope) -> None:
        try:
            await serve(scope, self._receive, self._send)
        except BaseException as problem:
            self._put(problem)
            if isinstance(problem, asyncio.CancelledError):
                raise
        else:
            self._put(None)

    def end(self) -> None:
        """The client is gone, or has everything."""
        if self.answering is not None:
            self.answering.cancel()

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._is_gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        self._put(message)


@dataclass(frozen=True)
class Start:
    """Status and headers of an answer."""

    status: int
    headers: list[tuple[str, str]]


def _start(message: Message) -> Start:
    if isinstance(message, BaseException):
        raise message
    assert message is not None
    headers = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in message.get("headers", [])
    ]
    return Start(int(message["status"]), headers)


@dataclass(frozen=True)
class Answer:
    """The answer to a request, for a thread."""

    start: Start
    _request: _Request
    _messages: SimpleQueue[Message]

    def chunks(self) -> Iterator[bytes]:
        """The body; closing the iterator ends the request."""
        try:
            while (chunk := _chunk(self._messages.get())) is not None:
                if chunk:
                    yield chunk
        finally:
            self._request.end()


@dataclass(frozen=True)
class AsyncAnswer:
    """The answer to a request, for an event loop."""

    start: Start
    _request: _Request
    _messages: asyncio.Queue[Message]

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body; closing the iterator ends the request."""
        try:
            while (chunk := _chunk(await self._messages.get())) is not None:
                if chunk:
                    yield chunk
        finally:
            self._request.end()


def _chunk(message: Message) -> bytes | None:
    """A piece of the body; None at the end."""
    if message is None:
        return None
    if isinstance(message, BaseException):
        raise message
    return bytes(message.get("body", b""))


def scope_of(environ: Mapping[str, Any], root: str) -> Scope:
    """The scope of a request that came by WSGI; `root` is the path of the console."""
    path = f"{environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}"
    path = path.encode("latin-1").decode("utf-8", "replace")
    sent = environ.get("RAW_URI") or environ.get("REQUEST_URI") or quote(path)
    headers = [
        (name[5:].replace("_", "-").lower().encode("latin-1"), str(value).encode("latin-1"))
        for name, value in environ.items()
        if name.startswith("HTTP_")
    ]
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            header = name.replace("_", "-").lower().encode("latin-1")
            headers.append((header, str(environ[name]).encode("latin-1")))
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": environ["REQUEST_METHOD"],
        "scheme": environ.get("wsgi.url_scheme", "http"),
        "path": path,
        "raw_path": str(sent).partition("?")[0].encode("latin-1"),
        "root_path": root,
        "query_string": str(environ.get("QUERY_STRING", "")).encode("latin-1"),
        "headers": headers,
        "client": (environ.get("REMOTE_ADDR") or "unknown", int(environ.get("REMOTE_PORT") or 0)),
        "server": (environ.get("SERVER_NAME", ""), int(environ.get("SERVER_PORT") or 0)),
    }
