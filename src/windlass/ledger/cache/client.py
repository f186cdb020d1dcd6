"""Asks a cache: Redis, or Valkey. Every call is one script in one round trip."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from windlass import lent
from windlass.errors import BadInput, CacheUnavailable
from windlass.ledger.cache import script
from windlass.ledger.model.hot import Allotment, CacheDecision, Question, Verdict

PREFIX = "windlass:hot:"
TIMEOUT_SECONDS = 2.0
SCHEMES = ("redis", "rediss", "unix")
NEEDS = "a hot lane needs the Redis client; run: pip install 'windlass[hot]'"

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder().decode
# A request as the scripts take it: its id, its mark, then SKU and quantity of each line.
Asked = Sequence[str | int]


class CachePlace(NamedTuple):
    """How much of a SKU the cache was given, and how much of that it has taken."""

    limit: int
    sold: int


class Decided(NamedTuple):
    """The decisions about questions, in their order, and how much is left of each SKU."""

    decisions: list[CacheDecision]
    left: dict[str, int]


class HotCache:
    """The cache of one lane. Each method raises CacheUnavailable if it does not answer.

    What takes the token of an epoch returns None if the cache is not to be trusted with it.
    """

    def __init__(self, url: str, *, timeout: float = TIMEOUT_SECONDS) -> None:
        self.address = _address(url)
        try:
            import redis
        except ImportError as problem:
            raise BadInput(NEEDS) from problem
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        self._lost: tuple[type[Exception], ...] = (redis.ConnectionError, redis.TimeoutError)
        self._errors = (redis.RedisError, OSError)
        self._missing = redis.exceptions.NoScriptError
        try:
            self._client: Any = redis.Redis.from_url(
                url,
                socket_timeout=timeout,
                socket_connect_timeout=timeout,
                retry=Retry(NoBackoff(), 0),
                decode_responses=False,
            )
        except (ValueError, TypeError) as problem:
            raise BadInput(f"cache {self.address}: {problem}") from problem
        self._hashes = {
            text: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
            for text in (
                *(script.DECIDE, script.UNDO, script.OPEN),
                *(script.LIMIT, script.LOOK, script.SETTLE),
            )
        }

    def decide(
        self,
        token: str,
        name: str,
        questions: Sequence[Question],
        *,
        remember_seconds: int,
        done: Sequence[str] = (),
    ) -> Decided | None:
        """Decide about all questions, in their order, under one name."""
        places = {sku: at for at, sku in enumerate(_skus(questions), start=1)}
        asked = encode((list(places), [_asked(question, places) for question in questions]))
        kept = encode([(q.id, q.body, q.lines) for q in questions])
        # Asking again is the same question, so a connection that just broke costs nobody his order.
        found = self._ask(script.DECIDE, [_key(token)], name, remember_seconds, asked, kept, *done)
        if found is None:
            return None
        left, answers = decode(found)
        skus = list(places)
        decisions = [
            _decision(answer, name, question, skus)
            for answer, question in zip(answers, questions, strict=True)
        ]
        return Decided(decisions, dict(zip(skus, left, strict=True)))

    def undo(self, token: str, name: str, questions: Iterable[Question]) -> bool | None:
        """What the decision of that name took for these questions comes back."""
        asked: list[Asked] = [
            [q.id, q.mark, *(part for line in q.lines.items() for part in line)] for q in questions
        ]
        return self._ask(script.UNDO, [_key(token)], name, encode(asked)) and True

    def open(self, token: str, before: str, allotments: Iterable[Allotment]) -> None:
        """Begin an epoch; this server is trusted with it as long as it runs."""
        self._ask(script.OPEN, [_key(token), _key(before) if before else ""], _rows(allotments))

    def limit(self, token: str, allotments: Iterable[Allotment]) -> bool | None:
        """Let it sell as much of each SKU as is allotted."""
        return self._ask(script.LIMIT, [_key(token)], _rows(allotments)) and True

    def look(self, token: str, skus: Sequence[str]) -> dict[str, CachePlace] | None:
        """What it has of these SKUs."""
        found = self._ask(script.LOOK, [_key(token)], *skus)
        if found is None:
            return None
        rows = decode(found)
        return {
            sku: CachePlace(int(limit), int(sold or 0))
            for sku, (limit, sold) in zip(skus, rows, strict=True)
            if limit != ""
        }

    def settle(self, token: str, names: Sequence[str]) -> None:
        """Forget decisions that are recorded."""
        self._ask(script.SETTLE, [_key(token)], *names)

    def pending(self, token: str) -> list[str]:
        """The decisions of which nobody has said yet that they are recorded."""
        found = self._run(lambda: self._client.hkeys(f"{_key(token)}#pending"))
        return [each.decode() for each in found]

    def questions_of(self, token: str, name: str) -> list[Question]:
        """What a pending decision was about."""
        found = self._run(lambda: self._client.hget(f"{_key(token)}#pending", name))
        return [] if found is None else [Question(*each) for each in decode(found)]

    def ping(self) -> None:
        """Raise CacheUnavailable unless it answers."""
        self._run(self._client.ping)

    def close(self) -> None:
        """Close the connections; they are opened again when they are needed."""
        self._client.close()

    def _ask(self, text: str, keys: Sequence[str], *arguments: Any) -> Any:
        return self._run(lambda: self._call(text, keys, arguments))

    def _call(self, text: str, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        try:
            return self._client.execute_command(
                "EVALSHA", self._hashes[text], len(keys), *keys, *arguments
            )
        except self._missing:
            return self._client.execute_command("EVAL", text, len(keys), *keys, *arguments)

    def _run(self, call: Any) -> Any:
        if lent.LOANS:
            lent.refuse(self.address, self.address)
        try:
            try:
                return call()
            except self._lost:
                # Connections break when the server is restarted; one that was waiting in the pool
                # may have been broken before.
                return call()
        except self._errors as problem:
            raise CacheUnavailable(self.address, _first_line(problem)) from problem


def _decision(answer: Any, name: str, question: Question, skus: Sequence[str]) -> CacheDecision:
    if answer == 0:
        return CacheDecision(Verdict.TAKEN, name)
    if isinstance(answer, str):
        if answer.startswith("x"):
            return CacheDecision(Verdict.CONFLICT, answer[1:])
        return CacheDecision(Verdict.KNOWN, answer)
    place, left = answer
    sku = skus[int(place) - 1]
    verdict = Verdict.ABSENT if left < 0 else Verdict.SHORT
    return CacheDecision(verdict, name, sku, question.lines[sku], int(left))


def _asked(question: Question, places: Mapping[str, int]) -> Asked:
    lines = (part for sku, quantity in question.lines.items() for part in (places[sku], quantity))
    return question.id, question.mark, *lines


def _skus(questions: Iterable[Question]) -> list[str]:
    return list(dict.fromkeys(sku for question in questions for sku in question.lines))


def _rows(allotments: Iterable[Allotment]) -> bytes:
    return encode([(each.sku, each.quantity, each.recorded) for each in allotments])


def _key(token: str) -> str:
    return f"{PREFIX}{token}"


def _address(url: object) -> str:
    """Where the cache is, without user and password."""
    if not isinstance(url, str):
        raise BadInput(f"the URL of a cache is text, not {type(url).__name__}: redis://host:6379/0")
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise BadInput("the URL of a cache begins with redis://, rediss:// or unix://")
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}"


def _first_line(problem: BaseException) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0]
