"""A strict search server of our own: it speaks HTTP as Elasticsearch's documentation says.

It is not Elasticsearch, and none was to be had where this was written. It answers what
`SearchIndex` asks over documents in memory, in the form and with the errors of the real one, and
refuses what the real one refuses. It also refuses what it does not know, so that nothing can be
used untried.
"""

import base64
import fnmatch
import json
import random
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

MOST_HITS = 10_000
MOST_TERMS = 65_536
WHOLE = {"byte": 7, "short": 15, "integer": 31, "long": 63}
SORTABLE = {*WHOLE, "keyword", "double"}
SHARDS = {"total": 2, "successful": 2, "skipped": 0, "failed": 0}
VERSIONED = re.compile(r"application/vnd\.elasticsearch\+json; ?compatible-with=(\d+)")
# What a search may be given here; the real one knows more.
SEARCH = {
    *("query", "size", "sort", "_source", "track_total_hits", "docvalue_fields"),
    *("search_after", "pit"),
}
INDEX = r"/(?P<index>[^/_][^/]*)"

Document = dict[str, Any]


class Refused(Exception):
    """An error as the real server answers it."""

    def __init__(self, status: int, kind: str, reason: str, **facts: object) -> None:
        super().__init__(reason)
        cause = {"type": kind, "reason": reason, **facts}
        self.status = status
        self.body: Any = {"error": {"root_cause": [cause], **cause}, "status": status}


def phase_failed(status: int, kind: str, reason: str) -> Refused:
    """An error that the shards had: it is the cause of another."""
    refused = Refused(status, kind, reason)
    refused.body["error"] |= {
        "type": "search_phase_execution_exception",
        "reason": "all shards failed",
        "phase": "query",
        "grouped": True,
    }
    return refused


def partial_failure() -> Refused:
    return phase_failed(503, "no_shard_available_action_exception", "Partial shards failure")


def illegal(reason: str) -> Refused:
    return Refused(400, "illegal_argument_exception", reason)


def invalid(*reasons: str) -> Refused:
    listed = " ".join(f"{number}: {reason};" for number, reason in enumerate(reasons, 1))
    return Refused(400, "action_request_validation_exception", f"Validation Failed: {listed}")


@dataclass
class Index:
    """Documents by their id, and the types of their fields."""

    mapping: dict[str, str]
    documents: dict[str, Document] = field(default_factory=dict)
    keeps_source: bool = True


@dataclass
class Kept:
    """A point in time, or a scroll: the hits that it still has."""

    rows: list[tuple[str, str, Document]]
    until: float
    body: dict[str, Any] = field(default_factory=dict)


class Elastic:
    """The server's state; tests change it while it answers."""

    def __init__(self) -> None:
        self.version = (9, 1, 0)
        self.is_elasticsearch = True
        self.has_points_in_time = True
        self.indices: dict[str, Index] = {}
        # The header that is asked for, and whether its bearer may read.
        self.authorization: str | None = None
        self.may_read = True
        self.failed_shards = 0
        # The time on its clock, in seconds; only tests move it.
        self.now = 0.0
        self.kept: dict[str, Kept] = {}
        self.asked: list[tuple[str, str, Any]] = []
        self._lock = threading.Lock()

    def answer(self, method: str, target: str, headers: Any, raw: bytes) -> tuple[int, Any]:
        parts = urlsplit(target)
        path, given = unquote(parts.path), dict(parse_qsl(parts.query))
        with self._lock:
            try:
                check_media_types(self.version, headers, has_body=bool(raw))
                body = json.loads(raw) if raw else None
                self.asked.append((method, path, body))
                self.check_credentials(path, headers.get("authorization"))
                return 200, self.route(method, path, given, body)
            except Refused as problem:
                return problem.status, problem.body

    def check_credentials(self, path: str, given: str | None) -> None:
        if self.authorization is None or (given == self.authorization and self.may_read):
            return
        if given is None:
            reason = f"missing authentication credentials for REST request [{path}]"
            raise Refused(401, "security_exception", reason)
        if given == self.authorization:
            reason = (
                "action [indices:data/read/search] is unauthorized for user [shop], "
                "this action is granted by the index privileges [read,all]"
            )
            raise Refused(403, "security_exception", reason)
        if given.startswith("Basic "):
            user = base64.b64decode(given[6:]).decode().partition(":")[0]
            reason = f"unable to authenticate user [{user}] for REST request [{path}]"
        else:
            reason = f"unable to authenticate with provided credentials for REST request [{path}]"
        raise Refused(401, "security_exception", reason)

    def route(self, method: str, path: str, given: dict[str, str], body: Any) -> Any:
        routes = {
            "GET /": (set(), self.info),
            f"POST {INDEX}/_search": ({"allow_partial_search_results", "scroll"}, self.search),
            "POST /_search": ({"allow_partial_search_results"}, self.search),
            f"POST {INDEX}/_count": (set(), self.count),
            f"(GET|POST) {INDEX}/_field_caps": ({"fields"}, self.field_caps),
            "POST /_search/scroll": (set(), self.scroll),
            "DELETE /_search/scroll": (set(), self.clear_scroll),
        }
        if self.has_points_in_time:
            routes[f"POST {INDEX}/_pit"] = ({"keep_alive"}, self.open_pit)
            routes["DELETE /_pit"] = (set(), self.close_pit)
        for pattern, (parameters, answer) in routes.items():
            if found := re.fullmatch(pattern, f"{method} {path}"):
                if unknown := sorted(given.keys() - parameters):
                    raise illegal(
                        f"request [{path}] contains unrecognized parameter: [{unknown[0]}]"
                    )
                return answer(body, **given, **found.groupdict())
        raise illegal(f"no handler found for uri [{path}] and method [{method}]")

    def info(self, body: None) -> Any:
        number = ".".join(map(str, self.version))
        version = {"number": number, "build_flavor": "default"}
        return {"version": version, "tagline": "You Know, for Search"}

    def chosen(self, names: str) -> dict[str, Index]:
        found: dict[str, Index] = {}
        for name in names.split(","):
            matching = fnmatch.filter(self.indices, name)
            if not matching and "*" not in name:
                reason = f"no such index [{name}]"
                raise Refused(404, "index_not_found_exception", reason, index=name)
            found |= {each: self.indices[each] for each in matching}
        return found

    def field_caps(self, body: Any, *, index: str, fields: str | None = None) -> Any:
        if body is not None:
            exactly(body, {"fields"})
        # In a body, a text is the name of one field.
        given = body["fields"] if body is not None else (fields or "").split(",")
        chosen = self.chosen(index)
        answer: dict[str, Any] = {}
        for name in [given] if isinstance(given, str) else given:
            for kind in sorted(
                {each.mapping[name] for each in chosen.values() if name in each.mapping}
            ):
                able = {"searchable": True, "aggregatable": kind in SORTABLE}
                answer.setdefault(name, {})[kind] = {
                    "type": kind,
                    "metadata_field": False,
                    **able,
                }
        return {"indices": list(chosen), "fields": answer}

    def rows(self, index: str) -> list[tuple[str, str, Document]]:
        return [
            (name, own, document)
            for name, each in self.chosen(index).items()
            for own, document in each.documents.items()
        ]

    def count(self, body: Any, *, index: str) -> Any:
        exactly(body, {"query"})
        found = [row for row in self.rows(index) if self.matches(row, body["query"])]
        return {"count": len(found), "_shards": self.shards()}

    def shards(self) -> Any:
        return {**SHARDS, "failed": self.failed_shards}

    def search(
        self,
        body: Any,
        *,
        index: str | None = None,
        scroll: str | None = None,
        allow_partial_search_results: str = "true",
    ) -> Any:
        check_search(body, index, scroll)
        if self.failed_shards and allow_partial_search_results == "false":
            raise partial_failure()
        kept = self.kept_at(body["pit"]) if "pit" in body else None
        rows = self.rows(index or "*") if kept is None else kept.rows
        found = self.ordered([row for row in rows if self.matches(row, body["query"])], body)
        if "pit" in body and body.get("sort"):
            # Each search at a point in time is also sorted by the place of a document in it.
            places = {row[:2]: place for place, row in enumerate(rows)}
            found = [(row, [*sort, places[row[:2]]]) for row, sort in found]
        if "search_after" in body:
            found = after(found, body)
        size = body.get("size", 10)
        answer = {
            "took": 1,
            "timed_out": False,
            "_shards": self.shards(),
            "hits": {"hits": [self.hit(*each, body) for each in found[:size]]},
        }
        if kept is not None:
            answer["pit_id"] = self.renamed(body["pit"]["id"])
        if scroll is not None:
            rest = [row for row, _ in found[size:]]
            answer["_scroll_id"] = self.keep(Kept(rest, self.now + seconds(scroll), body))
        return answer

    def ordered(self, rows: list[Any], body: Any) -> list[tuple[Any, list[Any]]]:
        """The rows with their values to sort by."""
        if "sort" not in body:
            random.shuffle(rows)
            return [(row, []) for row in rows]
        ((name, order),) = exactly_one(body["sort"]).items()
        for row in rows:
            check_sortable(name, self.indices[row[0]].mapping, row[0])
        pick = min if order == "asc" else max
        found = [(row, [pick(values(row[2], name))]) for row in rows]
        return sorted(found, key=lambda each: each[1], reverse=order == "desc")

    def hit(self, row: tuple[str, str, Document], sort: list[Any], body: Any) -> Any:
        index, own, document = row
        hit: dict[str, Any] = {"_index": index, "_id": own, "_score": None if sort else 0.5}
        if sort:
            hit["sort"] = sort
        wanted = body.get("_source", True)
        if wanted is not False and self.indices[index].keeps_source:
            names = document if wanted is True else wanted
            hit["_source"] = {name: document[name] for name in names if name in document}
        if "docvalue_fields" in body:
            hit["fields"] = {name: values(document, name) for name in body["docvalue_fields"]}
        return hit

    def matches(self, row: tuple[str, str, Document], query: Any) -> bool:
        mapping = self.indices[row[0]].mapping
        ((kind, asked),) = exactly_one([query]).items()
        if kind == "bool":
            exactly(asked, set(asked) & {"filter", "must_not"})
            wanted = all(self.matches(row, each) for each in asked.get("filter", ()))
            return wanted and not any(self.matches(row, each) for each in asked.get("must_not", ()))
        if kind == "function_score":
            exactly(asked, {"query", "random_score", "boost_mode"})
            return self.matches(row, asked["query"])
        if kind == "exists":
            return bool(values(row[2], asked["field"]))
        if kind not in ("range", "term", "terms"):
            raise Refused(400, "parsing_exception", f"unknown query [{kind}]")
        ((name, value),) = asked.items()
        given = value.values() if kind == "range" else value if kind == "terms" else [value]
        if len(given) > MOST_TERMS:
            raise illegal(f"The number of terms [{len(given)}] used in the Terms Query request")
        for each in given:
            check_value(mapping.get(name, "keyword"), each)
        own = values(row[2], name)
        if kind == "range":
            return any(is_between(each, value) for each in own)
        return bool({*given} & {*own})

    def open_pit(self, body: None, *, index: str, keep_alive: str) -> Any:
        if self.failed_shards:
            raise partial_failure()
        kept = Kept(self.rows(index), self.now + seconds(keep_alive))
        return {"id": self.keep(kept), "_shards": self.shards()}

    def close_pit(self, body: Any) -> Any:
        exactly(body, {"id"})
        return {"succeeded": True, "num_freed": int(self.kept.pop(body["id"], None) is not None)}

    def scroll(self, body: Any) -> Any:
        exactly(body, {"scroll_id", "scroll"})
        kept = self.kept_at({"id": body["scroll_id"], "keep_alive": body["scroll"]})
        size = kept.body["size"]
        page, kept.rows = kept.rows[:size], kept.rows[size:]
        hits = [self.hit(*each, kept.body) for each in self.ordered(page, kept.body)]
        answer = {"took": 1, "timed_out": False, "_shards": self.shards(), "hits": {"hits": hits}}
        return {**answer, "_scroll_id": self.renamed(body["scroll_id"])}

    def clear_scroll(self, body: Any) -> Any:
        exactly(body, {"scroll_id"})
        freed = [self.kept.pop(each, None) for each in body["scroll_id"]]
        return {"succeeded": True, "num_freed": len([each for each in freed if each is not None])}

    def keep(self, kept: Kept) -> str:
        given = base64.b64encode(random.randbytes(24)).decode()
        self.kept[given] = kept
        return given

    def renamed(self, given: str) -> str:
        """Only the name that was given last is good, as the documentation warns."""
        return self.keep(self.kept.pop(given))

    def kept_at(self, point: Any) -> Kept:
        exactly(point, {"id", "keep_alive"})
        kept = self.kept.get(point["id"])
        if kept is None or kept.until < self.now:
            reason = "No search context found for id [7]"
            raise phase_failed(404, "search_context_missing_exception", reason)
        kept.until = self.now + seconds(point["keep_alive"])
        return kept


def check_media_types(version: tuple[int, ...], headers: Any, *, has_body: bool) -> None:
    """Plain JSON, or JSON of this version or the one before it; from 8 on."""
    for name in ("content-type", "accept"):
        given = headers.get(name)
        if name == "content-type" and not has_body:
            continue
        found = VERSIONED.fullmatch(given or "")
        if found is None and (given or "").partition(";")[0] in ("application/json", "*/*"):
            continue
        if found is None or version[0] < 8:
            refused = Refused(406, "", "")
            text = f"Content-Type header [{given}] is not supported"
            refused.body = {"error": text, "status": 406}
            raise refused
        if int(found[1]) not in (version[0], version[0] - 1):
            text = "Invalid media-type value on headers [Accept, Content-Type]"
            raise Refused(400, "media_type_header_exception", text)


def check_search(body: Any, index: str | None, scroll: str | None) -> None:
    if unknown := sorted(body.keys() - SEARCH):
        raise Refused(400, "parsing_exception", f"Unknown key for a VALUE in [{unknown[0]}].")
    problems = []
    if scroll is not None:
        if not body.get("track_total_hits", True):
            problems.append("disabling [track_total_hits] is not allowed in a scroll context")
        if body.get("size") == 0:
            problems.append("[size] cannot be [0] in a scroll context")
        if "search_after" in body:
            problems.append("[search_after] cannot be used in a scroll context")
        if "pit" in body:
            problems.append("using [point in time] is not allowed in a scroll context")
    if "pit" in body and index is not None:
        problems.append(
            "[indices] cannot be used with point in time. Do not specify any index with point in "
            "time."
        )
    if problems:
        raise invalid(*problems)
    size = body.get("size", 10)
    if not isinstance(size, int) or size < 0:
        raise illegal(f"[size] parameter cannot be negative, found [{size}]")
    if size > MOST_HITS:
        what = (
            "Result window is too large, from + size"
            if scroll is None
            else ("Batch size is too large, size")
        )
        text = f"{what} must be less than or equal to: [{MOST_HITS}] but was [{size}]."
        raise phase_failed(400, "illegal_argument_exception", text)
    if "search_after" in body and not body.get("sort"):
        raise phase_failed(
            400, "illegal_argument_exception", "Sort must contain at least one field."
        )


def after(found: list[Any], body: Any) -> list[Any]:
    given = body["search_after"]
    if found and len(given) != len(found[0][1]):
        text = f"search_after has {len(given)} value(s) but sort has {len(found[0][1])}."
        raise phase_failed(400, "illegal_argument_exception", text)
    ((_, order),) = body["sort"][0].items()
    if order == "asc":
        return [each for each in found if each[1] > given]
    # The last value is the place, which ascends.
    return [each for each in found if (-each[1][0], *each[1][1:]) > (-given[0], *given[1:])]


def check_sortable(name: str, mapping: dict[str, str], index: str) -> None:
    kind = mapping.get(name)
    if name == "_id":
        text = "Fielddata access on the _id field is disallowed"
    elif kind is None:
        text = f"No mapping found for [{name}] in order to sort on"
    elif kind == "text":
        text = f"Fielddata is disabled on [{name}] in [{index}]. Text fields are not optimised"
    else:
        return
    raise phase_failed(400, "illegal_argument_exception", text)


def check_value(kind: str, value: object) -> None:
    if kind in WHOLE:
        if not isinstance(value, int):
            raise phase_failed(400, "number_format_exception", f'For input string: "{value}"')
        if not -(1 << WHOLE[kind]) <= value < 1 << WHOLE[kind]:
            text = f"Value [{value}] is out of range for {kind}"
            raise phase_failed(400, "illegal_argument_exception", text)


def is_between(value: Any, limits: dict[str, Any]) -> bool:
    if unknown := sorted(limits.keys() - {"gt", "gte", "lt", "lte"}):
        text = f"[range] query does not support [{unknown[0]}]"
        raise Refused(400, "parsing_exception", text)
    return (
        ("gt" not in limits or value > limits["gt"])
        and ("gte" not in limits or value >= limits["gte"])
        and ("lt" not in limits or value < limits["lt"])
        and ("lte" not in limits or value <= limits["lte"])
    )


def values(document: Document, name: str) -> list[Any]:
    """The values of a field, or of a part of it such as `title.keyword`."""
    found = document.get(name.removesuffix(".keyword"))
    return [] if found is None else found if isinstance(found, list) else [found]


def exactly(asked: Any, names: set[str]) -> None:
    if not isinstance(asked, dict) or asked.keys() != names:
        raise Refused(400, "parsing_exception", f"{asked} instead of {sorted(names)}")


def exactly_one(asked: Any) -> dict[str, Any]:
    if not isinstance(asked, list) or len(asked) != 1 or len(asked[0]) != 1:
        raise Refused(400, "parsing_exception", f"[{asked}] is not known here")
    (found,) = asked
    return found


def seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+)(ms|s|m|h)", text)
    if found is None:
        raise illegal(f"failed to parse setting [keep_alive] with value [{text}] as a time value")
    return int(found[1]) * {"ms": 0.001, "s": 1, "m": 60, "h": 3_600}[found[2]]


@contextmanager
def serving(elastic: Elastic, certificate: tuple[str, str] | None = None) -> Iterator[str]:
    """The address of a server in this state; with a certificate and its key, over TLS."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body leave in one packet.
        wbufsize = 1 << 16

        def handle_any(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = elastic.answer(self.command, self.path, self.headers, raw)
            body = json.dumps(answer).encode()
            self.send_response(status)
            if elastic.is_elasticsearch and elastic.version >= (7, 14, 0):
                self.send_header("X-Elastic-Product", "Elasticsearch")
            accepted = self.headers.get("accept") or ""
            versioned = VERSIONED.fullmatch(accepted) and status != 406
            self.send_header("Content-Type", accepted if versioned else "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = handle_any  # noqa: N815

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"{scheme}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
