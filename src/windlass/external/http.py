"""Jobs behind HTTP: one request starts a job, another asks how it is going."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

from windlass.declare.external import External
from windlass.engine.context import context
from windlass.errors import ExternalDown
from windlass.model.duration import Duration, parse_duration
from windlass.model.external import Answer, Done, Failed, Running

AT_ONCE = 8
# A server that answers so, or by 500 and more, is to be asked again.
TRY_AGAIN = (408, 425, 429)


class HttpJob(External):
    """Starts jobs by POST and asks for them by GET; both answer with JSON.

    `{handle}` in a URL is the handle; paths such as "data.state" say where in an answer something
    is. The start carries `Idempotency-Key`, the same when it is repeated: the server must take two
    starts with one key for one. A start that it refuses by 400 to 499 has failed; one that it does
    not answer, or by 500 and more, is tried again as long as it takes. With `callback`, the address
    of `windlass callback`, the start also carries where and with which secret to call back.
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

    def submit(self, **body: Any) -> str:
        """Start a job with this JSON body."""
        run = context()
        headers = {"Idempotency-Key": run.submission}
        if self._callback is not None:
            address = f"{self._callback.rstrip('/')}/callback/{run.task_id}"
            headers |= {"Windlass-Callback": address, "Windlass-Secret": run.secret}
        answer = self._ask("POST", self._start, body, headers)
        handle = _at(answer, self._paths["handle"])
        if handle is None:
            raise ValueError(f"{self._start} answered without {self._paths['handle']!r}: {answer}")
        return str(handle)

    def poll(self, handles: list[str]) -> dict[str, Answer]:
        """Ask for each job; a job that is not known there has failed."""
        with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            return dict(zip(handles, pool.map(self._poll, handles), strict=True))

    def cancel(self, handle: str) -> None:
        """Ask the server to stop a job, if it has an address for that."""
        if self._cancel is not None:
            self._ask("DELETE", self._url(self._cancel, handle))

    def _poll(self, handle: str) -> Answer:
        try:
            answer = self._ask("GET", self._url(self._status, handle))
        except urllib.error.HTTPError as problem:
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
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as response:
                text = response.read()
        except urllib.error.HTTPError as problem:
            if problem.code < 500 and problem.code not in TRY_AGAIN:
                raise
            raise ExternalDown(f"{url} answered {problem.code} {problem.reason}") from problem
        except (urllib.error.URLError, http.client.HTTPException) as problem:
            raise ExternalDown(f"{url} does not answer: {problem}") from problem
        return json.loads(text) if text.strip() else None


def _at(found: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(found, dict):
            found = found.get(part)
        elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            return None
    return found
