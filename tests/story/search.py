"""A small search server over documents in memory, for the example that speaks to Elasticsearch.

It is not Elasticsearch, and no Elasticsearch was to be had where this was written. It answers the
part of `_search` that the example uses, over the documents it is given, and refuses everything
else, so that the example cannot use what was never tried. Percentiles are off by some per cent, as
those of the real one may be.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

PARAMETERS = {"size", "query", "sort", "search_after", "track_total_hits", "aggs"}
MOST_HITS = 10_000

Document = dict[str, Any]


class Refused(Exception):
    """A request that this server does not understand, or that Elasticsearch would refuse."""


class Index:
    """Documents, and how they are searched."""

    def __init__(self, documents: list[Document]) -> None:
        self.documents = documents
        self.searches: list[dict[str, Any]] = []
        # How many of its shards do not answer: their documents are missing.
        self.failed_shards = 0
        # By how much percentiles are off.
        self.off_by = 0.02

    def search(self, body: dict[str, Any], *, partial: bool) -> dict[str, Any]:
        if unknown := body.keys() - PARAMETERS:
            raise Refused(f"unknown parameters {sorted(unknown)}")
        self.searches.append(body)
        if self.failed_shards and not partial:
            raise Refused("search_phase_execution_exception: Partial shards failure")
        documents = self.documents[:: 2 if self.failed_shards else 1]
        found = [each for each in documents if matches(each, body["query"])]
        answer = {
            "timed_out": False,
            "_shards": {"total": 2, "successful": 2, "failed": self.failed_shards},
            "hits": {"hits": hits(found, body)},
        }
        if body.get("track_total_hits") is True:
            answer["hits"]["total"] = {"value": len(found), "relation": "eq"}
        if "aggs" in body:
            aggregations = body["aggs"].items()
            answer["aggregations"] = {name: self.cut(found, each) for name, each in aggregations}
        return answer

    def cut(self, found: list[Document], aggregation: dict[str, Any]) -> dict[str, Any]:
        """The percentiles of a field, a little beside what they are."""
        (asked,) = exactly(aggregation, "percentiles")
        field, marks, keyed = exactly(asked, "field", "percents", "keyed")
        if keyed is not False:
            raise Refused("percentiles are only told as a list here")
        values = sorted(each[field] for each in found if field in each)
        told = []
        for mark in marks:
            place = mark / 100 + self.off_by
            value = (
                float(values[min(int(place * len(values)), len(values) - 1)]) if values else None
            )
            told.append({"key": float(mark), "value": value})
        return {"values": told}


def matches(document: Document, query: dict[str, Any]) -> bool:
    ((kind, asked),) = query.items()
    match kind:
        case "exists":
            (field,) = exactly(asked, "field")
            return field in document
        case "bool":
            (clauses,) = exactly(asked, "must_not")
            return not any(matches(document, clause) for clause in clauses)
        case "range":
            ((field, limits),) = asked.items()
            if not limits or limits.keys() - {"gt", "lte"}:
                raise Refused(f"range with {limits}")
            value = document.get(field)
            if value is None:
                return False
            above = "gt" not in limits or value > limits["gt"]
            return above and ("lte" not in limits or value <= limits["lte"])
    raise Refused(f"unknown query [{kind}]")


def hits(found: list[Document], body: dict[str, Any]) -> list[dict[str, Any]]:
    size = body["size"]
    if not 0 <= size <= MOST_HITS:
        raise Refused(f"Result window is too large: {size}")
    if not size:
        return []
    if len(body.get("sort", ())) != 1:
        raise Refused("hits come in the order of one field here")
    ((field, direction),) = body["sort"][0].items()
    if direction != "asc":
        raise Refused(f"sort {direction}")
    ordered = sorted(found, key=lambda each: each[field])
    if "search_after" in body:
        (after,) = body["search_after"]
        ordered = [each for each in ordered if each[field] > after]
    return [{"_source": each, "sort": [each[field]]} for each in ordered[:size]]


def exactly(asked: dict[str, Any], *names: str) -> list[Any]:
    """The values of these names, if there are no others."""
    if asked.keys() != set(names):
        raise Refused(f"{sorted(asked)} instead of {sorted(names)}")
    return [asked[name] for name in names]


@contextmanager
def serving(index: Index, name: str) -> Iterator[str]:
    """The address of a server that has this index."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            parts = urlsplit(self.path)
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked = dict(parse_qsl(parts.query))
            partial = asked.pop("allow_partial_search_results", "true") != "false"
            try:
                if parts.path != f"/{name}/_search":
                    self.answer(404, {"error": f"index_not_found_exception: {parts.path}"})
                elif asked:
                    self.answer(400, {"error": f"unrecognized parameters {sorted(asked)}"})
                else:
                    self.answer(200, index.search(body, partial=partial))
            except Refused as problem:
                self.answer(503 if index.failed_shards else 400, {"error": str(problem)})

        def answer(self, status: int, what: dict[str, Any]) -> None:
            body = json.dumps(what).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
