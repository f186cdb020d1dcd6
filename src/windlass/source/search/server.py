"""Asks an Elasticsearch server by the official client, and says what is wrong if it refuses."""

from __future__ import annotations

import base64
import threading
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from windlass.errors import BadSource
from windlass.fork import watch_forks


class SearchServer:
    """One server, who asks it, and its connections. Threads may share it."""

    def __init__(
        self,
        url: str,
        *,
        basic_auth: tuple[str, str] | None,
        api_key: str | tuple[str, str] | None,
        bearer_auth: str | None,
        tls: Mapping[str, Any],
        seconds: float,
    ) -> None:
        parts = _checked(url)
        self.url = _without_user(parts).rstrip("/")
        if parts.username and basic_auth is None:
            basic_auth = (unquote(parts.username), unquote(parts.password or ""))
        given = {"Basic": basic_auth, "ApiKey": api_key, "Bearer": bearer_auth}
        self._authorization = _authorization(self.url, given)
        self._tls = {name: value for name, value in tls.items() if value is not None}
        self._seconds = seconds
        self.after_fork()
        watch_forks(self)

    def after_fork(self) -> None:
        """Open connections of its own in a child process."""
        self._lock = threading.Lock()
        self._client: Any = None

    def ask(self, what: str, method: str, **given: Any) -> Any:
        """Call a method of the client; `what` is asked for, in the words of an error.

        An answer of which a part is missing is an error.
        """
        library = _library(what)
        names = ("ApiError", "TransportError", "ElasticsearchException")
        errors = tuple(getattr(library, name) for name in names if hasattr(library, name))
        try:
            answer = getattr(self._connect(library, what), method)(**given)
        except errors as problem:
            raise self._refusal(library, what, problem) from None
        if answer.get("timed_out") or answer.get("_shards", {}).get("failed"):
            raise BadSource(f"{what}: some of its shards did not answer; try again")
        return answer

    def close(self) -> None:
        """Close all connections. Asking again opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connect(self, library: Any, what: str) -> Any:
        with self._lock:
            if self._client is None:
                # The option had another name before version 8.
                timeout = "request_timeout" if library.VERSION[0] >= 8 else "timeout"
                given: dict[str, Any] = {timeout: self._seconds}
                if self._authorization is not None:
                    given["headers"] = {"authorization": self._authorization}
                if self.url.startswith("https:"):
                    given |= self._tls
                    authority = self._tls.get("ca_certs")
                    if authority is not None and not Path(authority).exists():
                        raise BadSource(f"{what}: ca_certs={authority!r} is not there; check it")
                self._client = library.Elasticsearch(self.url, **given)
            return self._client

    def _refusal(self, library: Any, what: str, problem: Any) -> SearchRefused:
        status, body = getattr(problem, "status_code", None), getattr(problem, "info", None)
        error = body.get("error") if isinstance(body, dict) else None
        causes = error.get("root_cause") or [error] if isinstance(error, dict) else [{}]
        kind, reason = causes[0].get("type", ""), causes[0].get("reason") or str(problem)
        is_mismatch = True
        if isinstance(problem, library.UnsupportedProductError):
            said = (
                "the client refuses this server, because it does not say that it is Elasticsearch; "
                "OpenSearch cannot be read with it, and Elasticsearch before 7.14 needs "
                "'elasticsearch<8'"
            )
        elif kind == "media_type_header_exception" or status == 406:
            said = (
                f"the server is too old for version {library.VERSION[0]} of the client; install "
                "the client of its own version, as 'elasticsearch<9' for Elasticsearch 8"
            )
        else:
            is_mismatch = False
            said = self._explained(library, problem, status, kind=kind, reason=reason)
        return SearchRefused(f"{what}: {said[:400]}", status, is_mismatch=is_mismatch)

    def _explained(
        self, library: Any, problem: Any, status: object, *, kind: str, reason: str
    ) -> str:
        """What an error of the server means, and the cure."""
        if status == 401 and self._authorization is None:
            return "it asks for credentials; give basic_auth=, api_key= or bearer_auth="
        if status == 401:
            return "it refused the credentials; check them, and that they have not expired"
        if status == 403:
            return f"these credentials may not read it; grant them the privilege read: {reason}"
        if kind == "index_not_found_exception":
            return "there is no such index; check its name"
        if kind == "search_context_missing_exception":
            return "the point in time has expired; give a longer keep_alive="
        if isinstance(problem, library.SSLError):
            return f"its certificate is not trusted; give the CA's file as ca_certs=: {reason}"
        if isinstance(status, int):
            return f"it answered {status}: {kind} {reason}"
        return f"it did not answer: {reason}"


class SearchRefused(BadSource):
    """The server answered with an error, or not at all."""

    def __init__(self, message: str, status: object, *, is_mismatch: bool) -> None:
        super().__init__(message)
        self.status = status
        # Client and server do not fit together, so nothing else will work either.
        self.is_mismatch = is_mismatch


def _library(what: str) -> Any:
    try:
        return import_module("elasticsearch")
    except ImportError:
        raise BadSource(
            f"{what} needs the package elasticsearch, which is not installed; "
            "run: pip install 'windlass[search]'"
        ) from None


def _checked(url: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port is None:
        raise BadSource(
            f"{_without_user(parts)!r} is not the address of a search server; write it with its "
            "port, as https://search.example.org:9200"
        )
    return parts


def _without_user(parts: SplitResult) -> str:
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _authorization(url: str, credentials: Mapping[str, Any]) -> str | None:
    """The header that says who asks."""
    given = [(scheme, secret) for scheme, secret in credentials.items() if secret is not None]
    if len(given) > 1:
        raise BadSource(f"{url}: give one of basic_auth, api_key and bearer_auth, not several")
    for scheme, secret in given:
        if scheme != "Basic" and isinstance(secret, str) and secret:
            return f"{scheme} {secret}"
        is_pair = isinstance(secret, tuple | list) and len(secret) == 2
        if scheme == "Bearer" or not is_pair or not all(isinstance(each, str) for each in secret):
            raise BadSource(
                f"{url}: the credentials cannot be used; give basic_auth=(user, password), "
                "api_key= as text or as (id, key), or bearer_auth= as text"
            )
        return f"{scheme} {base64.b64encode(':'.join(secret).encode()).decode()}"
    return None
