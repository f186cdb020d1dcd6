"""HTTP jobs: one request starts a job, another asks for its state."""

from __future__ import annotations

import json
import random
import urllib.error
import urllib.request
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import quote

from windlass.core.run.call import spread
from windlass.core.run.context import current_run
from windlass.errors import ExternalFailed
from windlass.external.engine.submission import submission_of
from windlass.external.model import Answer, Done, External, Failed, Running
from windlass.value.duration import Duration, parse_duration

AT_ONCE = 8
LARGEST_ANSWER = 4 * 1024 * 1024
SHOWN = 300
# Statuses from 300 to 499 that may be different the next time.
LATER = (408, 425, 429)


class HttpJob(External):
    """Starts jobs by POST and polls them by GET; both answer with JSON.

    `{handle}` in a URL is the handle; a path such as "data.state" says where a value is in the
    answer. The start has an `Idempotency-Key`, which is the same when the start is repeated: the
    server must treat two starts with one key as one. With `callback`, the address of
    `windlass callback`, the start also says where to call back, and with which secret.

    A 4xx answer to the start is final, except 408, 425 and 429. Redirects are not followed: headers
    and secrets go only to the given address.
    """

    def __init__(
        self,
        start: str,
        status: str,
        *,
        handle: str = "id",
        state: str = "status",
        done: Collection[str] = ("done", "succeeded", "success", "finished", "completed"),
        failed: Collection[str] = ("failed", "error", "cancelled", "canceled"),
        result: str = "result",
        error: str = "error",
        cancel: str | None = None,
        headers: Mapping[str, str] | None = None,
        callback: str | None = None,
        timeout: Duration = "10s",
    ) -> None:
        self._start = start
        self._status = status
        self._paths = {"handle": handle, "state": state, "result": result, "error": error}
        self._done = frozenset(done)
        self._failed = frozenset(failed)
        self._cancel = cancel
        self._headers = dict(headers or {})
        self._callback = callback
        self._timeout = parse_duration(timeout, what="HttpJob: timeout") / 1e6
        self._open = urllib.request.build_opener(NoRedirect).open

    def submit(self, **body: Any) -> str:
        """Start a job with this JSON body."""
        run = current_run()
        given = submission_of(run)
        headers = {"Idempotency-Key": given.name}
        if self._callback is not None:
            address = f"{self._callback.rstrip('/')}/callback/{run.task.id}"
            headers |= {"Windlass-Callback": address, "Windlass-Secret": given.secret}
        try:
            answer = self._ask("POST", self._start, body, headers)
        except urllib.error.HTTPError as problem:
            text = f"POST {self._start} was answered by {problem.code}: {_beginning(problem)}"
            if 300 <= problem.code < 500 and problem.code not in LATER:
                raise ExternalFailed(text) from None
            raise ConnectionError(text) from None
        handle = _at(answer, self._paths["handle"])
        if handle is None:
            shown = json.dumps(answer)[:SHOWN]
            raise ExternalFailed(
                f"{self._start} answered without {self._paths['handle']!r}: {shown}"
            )
        return str(handle)

    def poll(self, handles: list[str]) -> dict[str, Answer]:
        """Ask for each job; a job that the server does not know has failed.

        A job whose request fails is left out. When the server is slow, so are the jobs for which
        there is no time left; the next poll has another order.
        """
        shuffled = random.sample(handles, len(handles))
        found = spread(self._poll, shuffled, at_once=AT_ONCE, seconds=2 * self._timeout)
        problems = [answer for answer in found.values() if isinstance(answer, Exception)]
        if problems and len(problems) == len(found):
            raise problems[0]
        return {
            handle: answer for handle, answer in found.items() if not isinstance(answer, Exception)
        }

    def cancel(self, handle: str) -> None:
        """Ask the server to stop a job, if there is an address for that."""
        if self._cancel is None:
            return
        try:
            self._ask("DELETE", self._url(self._cancel, handle))
        except urllib.error.HTTPError as problem:
            problem.close()
            # The job does not exist, or does not run any more.
            if problem.code not in (404, 409, 410):
                raise

    def _poll(self, handle: str) -> Answer:
        try:
            answer = self._ask("GET", self._url(self._status, handle))
        except urllib.error.HTTPError as problem:
            problem.close()
            if problem.code in (404, 410):
                return Failed(f"the server does not know job {handle!r}")
            raise
        state = str(_at(answer, self._paths["state"]))
        if state in self._done:
            return Done(_at(answer, self._paths["result"]))
        if state in self._failed:
            return Failed(str(_at(answer, self._paths["error"]) or f"the job is {state}"))
        return Running()

    def _url(self, template: str, handle: str) -> str:
        return template.replace("{handle}", quote(handle, safe=""))

    def _ask(
        self,
        method: str,
        url: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        data = None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **self._headers, **(headers or {})}
        request = urllib.request.Request(url, data=data, headers=sent, method=method)
        with self._open(request, timeout=self._timeout) as response:
            text = response.read(LARGEST_ANSWER + 1)
        if len(text) > LARGEST_ANSWER:
            raise ConnectionError(f"{url} answered with more than {LARGEST_ANSWER:,} bytes")
        try:
            return json.loads(text) if text.strip() else None
        except (ValueError, RecursionError) as problem:
            # Maybe a proxy in between has answered.
            raise ConnectionError(f"{url} did not answer with JSON: {problem}") from None


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects."""

    def redirect_request(self, *_asked: Any) -> None:
        """None: the redirect is the answer."""


def _beginning(problem: urllib.error.HTTPError) -> str:
    with problem:
        return problem.read(SHOWN).decode(errors="replace").strip()


def _at(found: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(found, dict):
            found = found.get(part)
        elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            return None
    return found
