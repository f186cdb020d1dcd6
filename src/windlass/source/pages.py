"""`Pages`: the rows of a web service, read page by page."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from windlass.errors import BadSource
from windlass.value.duration import Duration, parse_duration


class Pages:
    """Rows of an HTTP API that answers `url?after=KEY&limit=N` with the rows after a key, in order.

    The answer is a JSON list of objects, or an object that has the list under `items`. Each row has
    its key under `key`. Such a service cannot say where its middle is, so a sweep over it has one
    range; its concurrency decides how many rows run at once.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str = "id",
        after: str = "after",
        limit: str = "limit",
        items: str = "items",
        one: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: Duration = "30s",
    ) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise BadSource(f"{url!r} is not the address of a web service; begin it with https://")
        self.url = url
        self.key = key
        self._after = after
        self._limit = limit
        self._items = items
        self._one = one
        self.own_headers = dict(headers or {})
        self._headers = {"Accept": "application/json", **self.own_headers}
        self._seconds = parse_duration(timeout, what="timeout") / 1e6

    @property
    def name(self) -> str:
        """The address, without the parts that may be secret."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}{parts.path}"

    @property
    def fields(self) -> dict[str, Any]:
        """What makes it again, without its headers."""
        return {
            "url": self.url,
            "key": self.key,
            "after": self._after,
            "limit": self._limit,
            "items": self._items,
            "one": self._one,
            "timeout": f"{self._seconds:g}s",
        }

    def is_service_of(self, url: str) -> bool:
        """Whether an address is of the same service."""
        own, other = urlsplit(self.url), urlsplit(url)
        return (own.scheme, own.netloc) == (other.scheme, other.netloc)

    def bounds(self, ranges: int) -> Sequence[Any]:
        """No keys: such a service is read from its beginning."""
        return []

    def middle(self, after: Any | None, upto: Any | None) -> Any | None:
        """None: such a service cannot say it."""
        return None

    def read(
        self, after: Any | None, upto: Any | None, limit: int
    ) -> Sequence[tuple[Any, Mapping[str, Any]]]:
        """The next page; the service decides how long it is."""
        if upto is not None and after == upto:
            return []
        asked = {self._limit: str(limit)} | ({} if after is None else {self._after: str(after)})
        join = "&" if urlsplit(self.url).query else "?"
        rows = self._listed(self._get(f"{self.url}{join}{urlencode(asked)}"))
        found = []
        for row in rows[:limit]:
            if not isinstance(row, dict) or row.get(self.key) is None:
                raise BadSource(f"{self.name}: a row has no {self.key!r}; give key= its name")
            found.append((row[self.key], row))
            if row[self.key] == upto:
                break
        if found and after is not None and after in (found[0][0], found[-1][0]):
            raise BadSource(
                f"{self.name}: asked for rows after {after!r}, the service answered with that row "
                f"again; {self._after}= must leave it out"
            )
        return found

    def find(self, key: Any) -> Mapping[str, Any] | None:
        """One row, if `one` says the address of single rows."""
        if self._one is None:
            raise BadSource(
                f'{self.name}: give one="https://.../{{key}}" so that single rows can be asked for'
            )
        found = self._get(self._one.replace("{key}", quote(str(key), safe="")), missing=True)
        return found if isinstance(found, dict) else None

    def __repr__(self) -> str:
        return f"Pages({self.name!r}, key={self.key!r})"

    def _get(self, address: str, *, missing: bool = False) -> Any:
        request = urllib.request.Request(address, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=self._seconds) as answer:
                return msgspec.json.decode(answer.read())
        except urllib.error.HTTPError as problem:
            if missing and problem.code == 404:
                return None
            raise BadSource(f"{self.name}: it answered {problem.code} {problem.reason}") from None
        except (OSError, http.client.HTTPException) as problem:
            raise BadSource(f"{self.name}: it did not answer: {problem}") from None
        except msgspec.DecodeError as problem:
            raise BadSource(f"{self.name}: its answer is not JSON: {problem}") from None

    def _listed(self, answer: Any) -> list[Any]:
        rows = answer.get(self._items) if isinstance(answer, dict) else answer
        if not isinstance(rows, list):
            raise BadSource(
                f"{self.name}: the answer is neither a list nor an object with {self._items!r}"
            )
        return rows
