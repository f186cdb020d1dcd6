"""A source of one's own: the documents of an Elasticsearch index, swept by `search_after`.

    from windlass import App
    from examples.search_index import SearchIndex

    app = App("postgresql://127.0.0.1/shop")

    @app.sweep(SearchIndex("http://127.0.0.1:9200", "article", key="number"), ranges=30)
    async def offer(article: dict) -> None: ...

The key is a field of type `long` that every document has, that no two share, and that never
changes. Pages go by it alone, so no scroll and no point in time is kept open: each page is a search
of its own, from where the last one ended. What was indexed is seen once the index is refreshed.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from windlass import BadSource

Query = dict[str, Any]
Document = dict[str, Any]


class SearchIndex:
    """The documents of an index, in the order of a field of whole numbers."""

    def __init__(self, url: str, index: str, *, key: str, timeout_seconds: float = 30.0) -> None:
        self.url = url.rstrip("/")
        self.index = index
        self.key = key
        self.timeout_seconds = timeout_seconds

    @property
    def name(self) -> str:
        """What people know it by."""
        return f"index {self.index!r}"

    # What every source has

    def bounds(self, ranges: int) -> list[int]:
        """Keys that cut the documents into about equal parts, however they are clustered."""
        marks = [100 * part / ranges for part in range(1, ranges)]
        return sorted(set(self._percentiles(self._between(None, None), marks)))

    def middle(self, after: int | None, upto: int | None) -> int | None:
        """A key with documents up to it and beyond it.

        Percentiles are about right and no more, so that is looked at; if one side is empty, the
        first document is cut off from the others.
        """
        for key in self._percentiles(self._between(after, upto), [50]):
            if self.read(after, key, 1) and self.read(key, upto, 1):
                return key
        first_two = self.read(after, upto, 2)
        return first_two[0][0] if len(first_two) == 2 else None

    def read(self, after: int | None, upto: int | None, limit: int) -> list[tuple[int, Document]]:
        """The first documents after the key `after` and up to the key `upto`."""
        begin = {} if after is None else {"search_after": [after]}
        found = self._search(
            {
                "size": limit,
                "query": self._between(None, upto),
                "sort": [{self.key: "asc"}],
                "track_total_hits": False,
                **begin,
            }
        )
        return [(hit["sort"][0], hit["_source"]) for hit in found["hits"]["hits"]]

    # What it may have

    def check(self) -> None:
        """Raise `BadSource` if a document has no key: it would never come."""
        without = self._total({"bool": {"must_not": [{"exists": {"field": self.key}}]}})
        if without:
            raise BadSource(
                f"{self.name}: {without} documents have no {self.key!r}; give each of them one"
            )

    def count(self) -> int:
        """How many documents there are, for estimates."""
        return self._total(self._between(None, None))

    def find(self, key: int) -> Document | None:
        """The document with that key; for visits, and for what failed and is tried again."""
        found = self.read(key - 1, key, 1)
        return found[0][1] if found else None

    # Asking

    def _between(self, after: int | None, upto: int | None) -> Query:
        limits = {"gt": after, "lte": upto}
        given = {name: value for name, value in limits.items() if value is not None}
        return {"range": {self.key: given}} if given else {"exists": {"field": self.key}}

    def _percentiles(self, query: Query, marks: list[float]) -> list[int]:
        if not marks:
            return []
        cut = {"percentiles": {"field": self.key, "percents": marks, "keyed": False}}
        found = self._search({"size": 0, "query": query, "aggs": {"cut": cut}})
        values = [each["value"] for each in found["aggregations"]["cut"]["values"]]
        return [int(value) for value in values if value is not None]

    def _total(self, query: Query) -> int:
        found = self._search({"size": 0, "query": query, "track_total_hits": True})
        return int(found["hits"]["total"]["value"])

    def _search(self, body: dict[str, Any]) -> dict[str, Any]:
        """An answer that is whole: a part that is missing must not be taken for an end."""
        request = urllib.request.Request(
            f"{self.url}/{self.index}/_search?allow_partial_search_results=false",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_seconds) as answer:
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as problem:
            said = problem.read().decode(errors="replace")[:300]
            raise BadSource(f"{self.name}: it answered {problem.code}: {said}") from None
        except (OSError, ValueError) as problem:
            raise BadSource(f"{self.name}: it did not answer: {problem}") from None
        if found["timed_out"] or found["_shards"]["failed"]:
            raise BadSource(f"{self.name}: some of its shards did not answer")
        return found
