"""A client for external services: one open connection per thread."""

from __future__ import annotations

import json
import threading
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import quote, urlsplit

SECONDS = 5.0


class Client:
    """Calls one service."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc
        self._own = threading.local()

    def get(self, *path: str, query: str = "") -> Any:
        """The answer of the service; ConnectionError without an answer or for a bad status."""
        return self._call("GET", path, query)

    def post(self, *path: str, body: object = None) -> Any:
        """`get`, for calls that change something."""
        return self._call("POST", path, "", json.dumps(body))

    def _call(self, method: str, path: tuple[str, ...], query: str, sent: str | None = None) -> Any:
        where = "/" + "/".join(quote(part, safe="") for part in path) + query
        connection = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = HTTPConnection(self._host, timeout=SECONDS)
        try:
            connection.request(method, where, sent)
            answer = connection.getresponse()
            body = json.loads(answer.read())
        except (OSError, HTTPException) as problem:
            connection.close()
            raise ConnectionError(f"{method} {where}: {problem}") from problem
        if answer.status != 200:
            raise ConnectionError(f"{method} {where}: {answer.status}, {body['error']}")
        return body
