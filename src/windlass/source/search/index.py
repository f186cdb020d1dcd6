"""`SearchIndex`: the documents of an Elasticsearch index, read by the official client.

A sweep reads each page by a search of its own, after the last key: nothing stays open between
pages, so a breakpoint is good for days. A mirror needs all keys of one moment. It opens a point in
time and goes on by `search_after`; where the server has no point in time, it scrolls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from heapq import merge
from itertools import chain, islice, pairwise
from typing import Any

from windlass.errors import BadSource
from windlass.source.search.server import SearchRefused, SearchServer
from windlass.value.duration import Duration, parse_duration

Query = dict[str, Any]
Pages = Generator[list[Any], None, None]
Walk = Callable[[Query, str], Pages]

# A server answers with at most this many hits, unless `index.max_result_window` says otherwise.
MOST_HITS = 10_000
# How far the whole numbers of a field go, by its type.
REACH = {"byte": 1 << 7, "short": 1 << 15, "integer": 1 << 31, "long": 1 << 63}
# What a server without points in time, or a gateway that knows none, answers when asked for one.
NO_POINT_IN_TIME = {400, 403, 405}


class SearchIndex:
    """The documents of an index, an alias or a pattern, in the order of the field `key`.

    The key is a `keyword`, or a whole number up to `long`, that every document has, that no two
    share, and that never changes. Handlers get the document and its `_id`; `fields` are those
    that they need, `query` leaves documents out. Creating a `SearchIndex` asks nothing. It only
    reads, and threads may share it.
    """

    def __init__(
        self,
        url: str,
        index: str,
        *,
        key: str,
        query: Mapping[str, Any] | None = None,
        fields: Sequence[str] | None = None,
        basic_auth: tuple[str, str] | None = None,
        api_key: str | tuple[str, str] | None = None,
        bearer_auth: str | None = None,
        ca_certs: str | None = None,
        verify_certs: bool = True,
        timeout: Duration = "30s",
        keep_alive: Duration = "5m",
        page: int = MOST_HITS,
    ) -> None:
        self.index = index
        self.key = key
        self._server = SearchServer(
            url,
            basic_auth=basic_auth,
            api_key=api_key,
            bearer_auth=bearer_auth,
            tls={"ca_certs": ca_certs, "verify_certs": verify_certs},
            seconds=parse_duration(timeout, what="timeout") / 1e6,
        )
        self._query = None if query is None else dict(query)
        self._fields = None if fields is None else list(fields)
        self._keep_alive = f"{parse_duration(keep_alive, what='keep_alive') // 1_000}ms"
        self._page = page
        self._type: str | None = None
        for given, what in ((index, "an index"), (key, "a field")):
            if not isinstance(given, str) or not given:
                raise BadSource(f"{self.name}: {given!r} is not the name of {what}")
        if key == "_id":
            raise BadSource(
                f"{self.name}: '_id' cannot be sorted by; copy it into a field of type keyword "
                "when documents are indexed, and give that field as key"
            )
        if isinstance(page, bool) or not isinstance(page, int) or page < 2:
            raise BadSource(f"{self.name}: page={page!r}; give a number of documents, 2 or more")

    @property
    def name(self) -> str:
        """The index and its server, for people."""
        return f"index {self.index!r} at {self._server.url}"

    def check(self) -> None:
        """Raise `BadSource` unless every document has a key that can be sorted by."""
        self._key_type()
        missing = {"bool": {"must_not": [{"exists": {"field": self.key}}]}}
        without = self._count(self._filter(missing))
        if without:
            raise BadSource(
                f"{self.name}: {without} documents have no {self.key!r}; give each of them one, "
                "or leave them out with query="
            )

    def bounds(self, ranges: int) -> Sequence[Any]:
        """Keys that cut the documents into parts of similar size, from a random sample of keys."""
        keys = self._sample(None, None)
        cuts = sorted({len(keys) * part // ranges for part in range(1, ranges)})
        return [keys[cut - 1] for cut in cuts if cut]

    def middle(self, after: Any | None, upto: Any | None) -> Any | None:
        """The middle of a random sample of keys, which is all of them if they fit on a page."""
        keys = self._sample(after, upto)
        return keys[(len(keys) - 1) // 2] if len(keys) > 1 else None

    def read(
        self, after: Any | None, upto: Any | None, limit: int
    ) -> Sequence[tuple[Any, Mapping[str, Any]]]:
        """The next documents, each with its key."""
        # One document more is asked for: its key shows that the last one does not come again.
        size = min(limit + 1, self._page)
        hits = self._hits(self._between(after, upto), size, after=after)
        return [(hit["sort"][0], self._row(hit)) for hit in hits[: size - 1]]

    def find(self, key: Any) -> Mapping[str, Any] | None:
        """The document with that key."""
        if not self._is_possible(key):
            return None
        hits = self._hits(self._filter({"term": {self.key: key}}), 2)
        return self._row(hits[0]) if hits else None

    def count(self) -> int:
        """How many documents there are."""
        return self._count(self._between(None, None))

    def keys(self) -> Iterator[list[str]]:
        """All keys as they are at one moment, in the byte order of UTF-8."""
        with ExitStack() as stack:
            walk = self._moment(stack)
            parts = [walk(*part) for part in self._in_byte_order()]
            streams = [chain.from_iterable(stack.enter_context(closing(each))) for each in parts]
            found, last = merge(*(map(str, keys) for keys in streams)), None
            while some := list(islice(found, MOST_HITS)):
                for before, key in pairwise([last, *some]):
                    if before == key:
                        raise self._duplicate(key)
                last = some[-1]
                yield some

    def present(self, keys: Collection[str]) -> set[str]:
        """Those of `keys` that the index has now."""
        if self._key_type() == "keyword":
            asked: list[Any] = list(keys)
        else:
            texts = [key for key in keys if len(key) <= 20 and key.removeprefix("-").isdecimal()]
            asked = [number for number in map(int, texts) if self._is_possible(number)]
        if not asked:
            return set()
        pages = self._walk(self._filter({"terms": {self.key: asked}}), "asc")
        return set(map(str, chain.from_iterable(pages))).intersection(keys)

    def close(self) -> None:
        """Close all connections. Using the index again opens new ones."""
        self._server.close()

    def __repr__(self) -> str:
        return f"SearchIndex({self._server.url!r}, {self.index!r}, key={self.key!r})"

    def _filter(self, query: Query) -> Query:
        given = [] if self._query is None else [self._query]
        return {"bool": {"filter": [query, *given]}}

    def _between(self, after: Any | None, upto: Any | None) -> Query:
        limits = {"gt": after, "lte": upto}
        limits = {name: key for name, key in limits.items() if key is not None}
        has_key: Query = {"exists": {"field": self.key}}
        return self._filter({"range": {self.key: limits}} if limits else has_key)

    def _key_type(self) -> str:
        """The type of the key field, which the server tells once."""
        if self._type is None:
            names = [self.key, f"{self.key}.keyword"]
            answer = self._ask("field_caps", index=self.index, fields=names)
            self._type = self._checked_type(answer)
        return self._type

    def _checked_type(self, answer: Mapping[str, Any]) -> str:
        """The one type that the field has in all indices, if documents can be sorted by it."""
        types = answer["fields"].get(self.key, {})
        cure = f"use a field of type keyword, or one of {', '.join(REACH)}"
        if f"{self.key}.keyword" in answer["fields"]:
            cure = f"use key='{self.key}.keyword'"
        if answer.get("indices") == []:
            raise BadSource(f"{self.name}: no index has that name; check it")
        if not types:
            raise BadSource(f"{self.name} has no field {self.key!r}; {cure}")
        if len(types) > 1:
            kinds = ", ".join(sorted(types))
            raise BadSource(f"{self.name}: {self.key!r} has several types: {kinds}; give it one")
        ((found, able),) = types.items()
        if found not in ("keyword", *REACH) or not (able["aggregatable"] and able["searchable"]):
            raise BadSource(
                f"{self.name}: {self.key!r} of type {found} cannot be the key, because documents "
                f"cannot be read in its order; {cure}"
            )
        return str(found)

    def _is_possible(self, key: Any) -> bool:
        """Whether the key field can have that value; a server may refuse to look for others."""
        reach = REACH.get(self._key_type())
        if reach is None:
            return isinstance(key, str)
        return isinstance(key, int) and not isinstance(key, bool) and -reach <= key < reach

    def _in_byte_order(self) -> Iterator[tuple[Query, str]]:
        """All keys in parts; in each of them, the order of the field is that of the texts.

        Whole numbers are sorted as their texts are if they have the same number of digits.
        """
        reach = REACH.get(self._key_type())
        if reach is None:
            yield self._between(None, None), "asc"
            return
        for digits in range(1, len(str(reach)) + 1):
            low, high = 10 ** (digits - 1), 10**digits - 1
            above = {"gte": low if digits > 1 else 0, "lte": min(high, reach - 1)}
            below = {"gte": max(-high, -reach), "lte": -low}
            yield self._filter({"range": {self.key: above}}), "asc"
            yield self._filter({"range": {self.key: below}}), "desc"

    def _sample(self, after: Any | None, upto: Any | None) -> list[Any]:
        """The keys of a page of documents that the server draws at random, in order."""
        draw = {
            "query": self._between(after, upto),
            "random_score": {},
            "boost_mode": "replace",
        }
        hits = self._search(
            {
                "query": {"function_score": draw},
                "size": self._page,
                "docvalue_fields": [self.key],
                "_source": False,
                "track_total_hits": False,
            }
        )
        return sorted({hit["fields"][self.key][0] for hit in hits["hits"]["hits"]})

    def _hits(self, query: Query, size: int, *, after: Any | None = None) -> list[Any]:
        """The first documents in the order of the key, if no two have the same."""
        wanted = True if self._fields is None else self._fields
        body = {**self._sorted(query, "asc"), "size": size, "_source": wanted}
        hits: list[Any] = self._search({**body, "track_total_hits": False})["hits"]["hits"]
        for before, key in pairwise([after, *(hit["sort"][0] for hit in hits)]):
            if before is not None and not before < key:
                raise self._duplicate(key)
        return hits

    def _row(self, hit: Mapping[str, Any]) -> dict[str, Any]:
        if "_source" not in hit:
            raise BadSource(f"{self.name} does not keep _source, so there are no documents to read")
        # A document cannot have a field of this name.
        return {"_id": hit["_id"], **hit["_source"]}

    def _sorted(self, query: Query, order: str) -> dict[str, Any]:
        return {"query": query, "sort": [{self.key: order}]}

    def _moment(self, stack: ExitStack) -> Walk:
        """How to walk over keys as they are now, until `stack` is closed."""
        try:
            opened = self._ask("open_point_in_time", index=self.index, keep_alive=self._keep_alive)
        except SearchRefused as problem:
            if problem.status not in NO_POINT_IN_TIME or problem.is_mismatch:
                raise
            return self._scroll
        point = {"id": opened["id"], "keep_alive": self._keep_alive}

        def close() -> None:
            with suppress(BadSource):
                self._ask("close_point_in_time", body={"id": point["id"]})

        stack.callback(close)
        return lambda query, order: self._walk(query, order, point)

    def _walk(self, query: Query, order: str, point: dict[str, Any] | None = None) -> Pages:
        """The keys of a query, page by page."""
        body = {**self._sorted(query, order), "size": self._page, "_source": False}
        body["track_total_hits"] = False
        while True:
            answer = self._search(body if point is None else {**body, "pit": point})
            if point is not None:
                # The server may give the point in time another name.
                point["id"] = answer["pit_id"]
            hits = answer["hits"]["hits"]
            yield [hit["sort"][0] for hit in hits]
            if len(hits) < self._page:
                return
            body["search_after"] = hits[-1]["sort"]

    def _scroll(self, query: Query, order: str) -> Pages:
        """As `_walk` at a point in time; the moment is that of the first page."""
        body = {**self._sorted(query, order), "size": self._page, "_source": False}
        answer = self._search(body, scroll=self._keep_alive)
        place = answer["_scroll_id"]
        try:
            while hits := answer["hits"]["hits"]:
                yield [hit["sort"][0] for hit in hits]
                answer = self._ask("scroll", body={"scroll_id": place, "scroll": self._keep_alive})
                place = answer["_scroll_id"]
        finally:
            with suppress(BadSource):
                self._ask("clear_scroll", body={"scroll_id": [place]})

    def _count(self, query: Query) -> int:
        return int(self._ask("count", index=self.index, body={"query": query})["count"])

    def _search(self, body: dict[str, Any], **given: Any) -> Any:
        if "pit" not in body:
            given["index"] = self.index
        # A part that is missing must not be taken for an end.
        return self._ask("search", body=body, allow_partial_search_results=False, **given)

    def _ask(self, method: str, **given: Any) -> Any:
        return self._server.ask(self.name, method, **given)

    def _duplicate(self, key: Any) -> BadSource:
        return BadSource(
            f"{self.name}: {self.key!r} is not unique, {key!r} comes more than once; use a field "
            "that has one value of its own in every document"
        )
