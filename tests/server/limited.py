"""An HTTP server that bears only so much, which can be changed while it is called.

It has one of three limits: calls a second (a token bucket, which refuses the rest by 429 with
`Retry-After`), calls at once (it refuses the rest by 503), or calls at once with a queue (calls
take longer, and are refused by 503 only if the queue is full). It logs each call.

    PUT  /bears     {"per_second": 100}, or {"at_once": 5, "seconds": 0.05, "queue": 100}
    GET  /log       [[received at, status, seconds of work], ...], times of the monotonic clock
    POST /call      a call
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

ANSWER_SECONDS = 10.0


@dataclass(frozen=True)
class Bears:
    """What it bears: `per_second`, or `at_once` with a `queue`; a call takes about `seconds`."""

    per_second: float | None = None
    at_once: int | None = None
    queue: int = 0
    seconds: float = 0.05
    retry_after: int | None = 1
    # How much a token bucket holds, in seconds of its rate.
    burst: float = 0.25

    @property
    def capacity(self) -> float:
        """How many calls it can do in a second."""
        return self.per_second or (self.at_once or 0) / self.seconds


class Call(NamedTuple):
    """A call in the log: when it came, how it was answered, and how long it was worked on."""

    at: float
    status: int
    seconds: float

    @property
    def is_refused(self) -> bool:
        return self.status != 200


class LimitedServer:
    """The server's process, from outside."""

    def __init__(self, bears: Bears) -> None:
        self.bears = bears

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.server.limited"], stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        self.change(self.bears)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def change(self, bears: Bears) -> None:
        """From now on it bears that much."""
        self.bears = bears
        self._ask("PUT", "/bears", vars(bears))

    @property
    def log(self) -> list[Call]:
        return [Call(*each) for each in self._ask("GET", "/log")]

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            return json.load(answer)


class Side:
    """What happens to calls, within the server's process."""

    def __init__(self) -> None:
        self.log: list[Call] = []
        self.bears = Bears(per_second=1.0)
        self._tokens, self._filled_at = 1.0, 0.0
        self._working = 0
        self._waiting: list[asyncio.Future[None]] = []

    def change(self, bears: Bears) -> None:
        self.bears = bears
        self._tokens = min(self._tokens, self._most_tokens)
        self._call_next()

    async def call(self) -> int:
        at, bears = time.monotonic(), self.bears
        is_taken = self._take_token(at) if bears.at_once is None else await self._enter()
        if not is_taken:
            status, worked = 429 if bears.at_once is None else 503, 0.0
        else:
            begin = time.monotonic()
            await asyncio.sleep(bears.seconds * random.uniform(0.7, 1.3))
            status, worked = 200, time.monotonic() - begin
            if bears.at_once is not None:
                self._working -= 1
                self._call_next()
        self.log.append(Call(at, status, worked))
        return status

    @property
    def _most_tokens(self) -> float:
        return max(3.0, self.bears.burst * (self.bears.per_second or 0.0))

    def _take_token(self, now: float) -> bool:
        gained = (now - self._filled_at) * (self.bears.per_second or 0.0)
        self._tokens = min(self._most_tokens, self._tokens + gained)
        self._filled_at = now
        has_one = self._tokens >= 1
        self._tokens -= has_one
        return has_one

    async def _enter(self) -> bool:
        if self._working < (self.bears.at_once or 1):
            self._working += 1
            return True
        if len(self._waiting) >= self.bears.queue:
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn
        return True

    def _call_next(self) -> None:
        while self._waiting and self._working < (self.bears.at_once or 1_000_000):
            self._working += 1
            self._waiting.pop(0).set_result(None)


async def converse(side: Side, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            first, *lines = head.decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines if line)
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            status, answer = await respond(side, first.split(" ")[1], body)
            text = json.dumps(answer).encode()
            later = side.bears.retry_after if status != 200 else None
            extra = "" if later is None else f"Retry-After: {later}\r\n"
            writer.write(
                f"HTTP/1.1 {status} Answer\r\nContent-Type: application/json\r\n{extra}"
                f"Content-Length: {len(text)}\r\n\r\n".encode()
                + text
            )
            await writer.drain()
            if headers.get("connection") == "close":
                break
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()


async def respond(side: Side, path: str, body: bytes) -> tuple[int, object]:
    if path == "/log":
        return 200, side.log
    if path == "/bears":
        side.change(Bears(**json.loads(body)))
        return 200, {}
    return await side.call(), {}


async def serve() -> None:
    side = Side()
    server = await asyncio.start_server(
        lambda reader, writer: converse(side, reader, writer), "127.0.0.1", 0, backlog=1024
    )
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
