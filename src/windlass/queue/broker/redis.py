"""Redis, in the format of kombu: a list for each queue, and an envelope around each body.

kombu's own consumer takes a message from its list and writes it down as unacknowledged in a second
call: a consumer that is killed between the two has lost it. Here one script does both. What is
taken and not acknowledged is kept in `windlass:NAME:unacked` and goes back to its list when nobody
has touched it for `visibility_timeout` seconds. The clock is that of Redis.

A group of messages is one transaction of Redis: all of them are in the list, or none.
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from windlass.errors import BrokerUnavailable
from windlass.queue.broker.contract import Broker, Subscription, text_of
from windlass.queue.broker.link import ANSWER_SECONDS, CONNECT_SECONDS, BrokerLink, Timer
from windlass.queue.model.message import Delivered, Outgoing, Sent
from windlass.queue.model.queue import Queue

# Seconds after which what a dead consumer had taken is delivered again.
VISIBILITY_SECONDS = 60.0
# The argument of a queue that is deleted when it is not used for that many milliseconds.
EXPIRES = "x-expires"
# kombu has a list for each of these priorities; the first is the one without priority.
SUFFIXES = ("", "\x06\x163", "\x06\x166", "\x06\x169")
# Redis cannot wait for several lists and a script at once; so others than the first are looked at
# so often.
LONGEST_WAIT_SECONDS = 1.0

# Keys of all scripts: unacknowledged messages, when each was last touched, the last tag, hashes of
# messages that were given back, the one who receives alone; then the lists.
TAKE = """
local taken, now = {}, redis.call('TIME')[1]
if ARGV[2] ~= '' and redis.call('GET', KEYS[5]) ~= ARGV[2] then return taken end
local marked = redis.call('EXISTS', KEYS[4]) == 1
for place = 6, #KEYS do
    while #taken < 3 * tonumber(ARGV[1]) do
        local raw = redis.call('RPOP', KEYS[place])
        if not raw then break end
        local tag = redis.call('INCR', KEYS[3])
        redis.call('HSET', KEYS[1], tag, raw)
        redis.call('ZADD', KEYS[2], now, tag)
        table.insert(taken, tag)
        table.insert(taken, raw)
        table.insert(taken, marked and redis.call('SREM', KEYS[4], redis.sha1hex(raw)) or 0)
    end
end
return taken
"""
FORGET = """
local known = 0
for _, tag in ipairs(ARGV) do
    redis.call('ZREM', KEYS[2], tag)
    known = known + redis.call('HDEL', KEYS[1], tag)
end
return known
"""
# Gives messages back, the last one first: the next to be taken is at the right end. They are marked
# by their hash: one that kills its consumers must be known.
GIVE_BACK = """
local known = 0
table.sort(tags, function(one, other) return tonumber(one) < tonumber(other) end)
for place = #tags, 1, -1 do
    local raw = redis.call('HGET', KEYS[1], tags[place])
    if raw then
        redis.call('RPUSH', KEYS[6], raw)
        redis.call('SADD', KEYS[4], redis.sha1hex(raw))
        known = known + 1
    end
    redis.call('HDEL', KEYS[1], tags[place])
    redis.call('ZREM', KEYS[2], tags[place])
end
if known > 0 then redis.call('EXPIRE', KEYS[4], 86400) end
return known
"""
RESTORE = f"local tags = ARGV {GIVE_BACK}"
RESTORE_LAPSED = f"""
local before = redis.call('TIME')[1] - tonumber(ARGV[1])
local tags = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', before, 'LIMIT', 0, 1000)
{GIVE_BACK}
"""
# From now on only the one of this name takes messages, those that others had first.
BE_ALONE = f"""
redis.call('SET', KEYS[5], ARGV[1])
local tags = redis.call('ZRANGE', KEYS[2], 0, -1)
{GIVE_BACK}
"""
TOUCH = """
local now = redis.call('TIME')[1]
for _, tag in ipairs(ARGV) do redis.call('ZADD', KEYS[2], 'XX', now, tag) end
return #ARGV
"""


class RedisBroker(Broker):
    """One connection to Redis."""

    def __init__(self, queue: Queue) -> None:
        self._link = BrokerLink(
            queue,
            socket_timeout=ANSWER_SECONDS,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_keepalive=True,
        )
        self._subscriptions: list[RedisSubscription] = []

    def declare(self, queue: Queue, *, lasting: bool = False) -> None:
        """A list needs no declaration: only see that Redis answers."""
        del queue, lasting
        with self._link.speaking() as connection:
            client_of(connection).ping()

    def publish(self, queue: Queue, messages: Sequence[Outgoing], *, declare: bool = True) -> Sent:
        from redis.exceptions import OutOfMemoryError, ReadOnlyError, ResponseError

        del declare  # a list is there as soon as something is in it

        envelopes = [_envelope(queue, message) for message in messages]
        with self._link.speaking() as connection:
            try:
                with client_of(connection).pipeline(transaction=True) as pipeline:
                    for start in range(0, len(envelopes), 500):
                        pipeline.lpush(queue.name, *envelopes[start : start + 500])
                    if EXPIRES in queue.arguments:
                        pipeline.pexpire(queue.name, int(queue.arguments[EXPIRES]))
                    pipeline.execute()
            except ReadOnlyError:
                raise
            except (OutOfMemoryError, ResponseError) as problem:
                why = f"Redis did not take it: {problem}"[:300]
                return Sent(set(), dict.fromkeys(range(len(messages)), why))
        return Sent(set(range(len(messages))), {})

    def subscribe(self, queue: Queue, *, prefetch: int, alone: str | None = None) -> Subscription:
        made = RedisSubscription(self._link, queue, prefetch, alone)
        self._subscriptions.append(made)
        return made

    def depth(self, queue: Queue) -> int:
        with self._link.speaking() as connection:
            client = client_of(connection)
            return sum(int(client.llen(queue.name + suffix)) for suffix in SUFFIXES)

    def keep_alive(self) -> None:
        for subscription in self._subscriptions:
            subscription.touch()

    def close(self) -> None:
        for subscription in self._subscriptions:
            subscription.close()
        self._subscriptions.clear()
        self._link.close()


class RedisSubscription(Subscription):
    """Takes from the lists of one queue."""

    def __init__(
        self, link: BrokerLink, queue: Queue, prefetch: int, alone: str | None = None
    ) -> None:
        self._link = link
        self._queue = queue
        self._prefetch = prefetch
        self._visibility = float(queue.options.get("visibility_timeout", VISIBILITY_SECONDS))
        base = f"windlass:{queue.name}"
        names = ("unacked", "unacked_at", "tag", "again", "alone")
        self._keys = [f"{base}:{name}" for name in names]
        self._alone = "" if alone is None else f"{alone}:{uuid.uuid4()}"
        self._is_alone = False
        self._lists = [queue.name + suffix for suffix in SUFFIXES]
        self._open: set[int] = set()
        self._restore = Timer(max(1.0, self._visibility / 6))
        self._touch = Timer(self._visibility / 6)

    def take(self, most: int, *, wait_seconds: float) -> list[Delivered]:
        room = min(most, self._prefetch - len(self._open))
        until = time.monotonic() + wait_seconds
        self.touch()
        if room <= 0:
            return []
        try:
            taken = self._taken(room, until)
        except BrokerUnavailable:
            # Messages may have been taken, and their tags lost on the way.
            self._is_alone = False
            raise
        rows = zip(taken[::3], taken[1::3], taken[2::3], strict=True)
        self._open.update(int(tag) for tag in taken[::3])
        return [self._delivery(tag, raw, is_again=bool(again)) for tag, raw, again in rows]

    def _taken(self, room: int, until: float) -> list[Any]:
        with self._link.speaking() as connection:
            client = client_of(connection)
            self._give_back_what_others_had(client)
            keys = [*self._keys, *self._lists]
            while True:
                taken: list[Any] = client.eval(TAKE, len(keys), *keys, room, self._alone)
                left = min(until - time.monotonic(), LONGEST_WAIT_SECONDS)
                if taken or left <= 0:
                    return taken
                # Moves a message to where it is, as soon as there is one.
                client.blmove(self._lists[0], self._lists[0], left, "RIGHT", "RIGHT")

    def _give_back_what_others_had(self, client: Any) -> None:
        keys = [*self._keys, self._lists[0]]
        if self._alone and not self._is_alone:
            # Also what this one had before its connection was lost.
            self._open.clear()
            client.eval(BE_ALONE, len(keys), *keys, self._alone)
            self._is_alone = True
        elif not self._alone and self._restore.has_rung():
            client.eval(RESTORE_LAPSED, len(keys), *keys, self._visibility)

    def acknowledge(self, deliveries: Sequence[Delivered]) -> int:
        return self._tell(FORGET, deliveries)

    def reject(self, deliveries: Sequence[Delivered]) -> int:
        return self._tell(FORGET, deliveries)

    def requeue(self, deliveries: Sequence[Delivered]) -> int:
        return self._tell(RESTORE, deliveries)

    def touch(self) -> None:
        """Keep what is open from being delivered to others."""
        if self._open and self._touch.has_rung():
            self._run(TOUCH, sorted(self._open))

    def close(self) -> None:
        if self._open and self._link.is_open:
            self._run(RESTORE, sorted(self._open))
        self._open.clear()
        self._is_alone = False

    def _tell(self, script: str, deliveries: Sequence[Delivered]) -> int:
        # A lost connection changes nothing here: Redis knows the tag, not who took it.
        tags = [each.tag for each in deliveries if each.tag in self._open]
        # Whether Redis hears it or not: what is no longer touched lapses, and is delivered again.
        self._open.difference_update(tags)
        try:
            return self._run(script, tags) if tags else 0
        except BrokerUnavailable:
            # One that receives alone takes back what it had when it begins anew.
            self._is_alone = False
            raise

    def _run(self, script: str, tags: Iterable[int]) -> int:
        keys = [*self._keys, self._lists[0]]
        with self._link.speaking() as connection:
            return int(client_of(connection).eval(script, len(keys), *keys, *tags))

    def _delivery(self, tag: int, raw: bytes | str, *, is_again: bool) -> Delivered:
        body, envelope = _opened(raw)
        properties = envelope.get("properties") or {}
        return Delivered(
            body=body,
            id=text_of(properties.get("message_id")),
            content_type=str(envelope.get("content-type") or ""),
            content_encoding=str(envelope.get("content-encoding") or ""),
            headers=envelope.get("headers") or {},
            reply_to=text_of(properties.get("reply_to")),
            correlation_id=text_of(properties.get("correlation_id")),
            is_again=is_again or bool((envelope.get("headers") or {}).get("redelivered")),
            tag=int(tag),
            epoch=self._link.epoch,
        )


def client_of(connection: Any) -> Any:
    """The client of redis-py that kombu made for this connection."""
    return connection.default_channel.client


def _envelope(queue: Queue, message: Outgoing) -> str:
    properties = {
        "message_id": message.id,
        "correlation_id": message.correlation_id,
        "reply_to": message.reply_to,
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": queue.name},
        "priority": 0,
        "body_encoding": "base64",
        "delivery_tag": str(uuid.uuid4()),
    }
    return json.dumps(
        {
            "body": base64.b64encode(message.body).decode(),
            "content-encoding": "utf-8" if message.content_type.endswith("json") else "binary",
            "content-type": message.content_type,
            "headers": dict(message.headers),
            "properties": properties,
        },
        separators=(",", ":"),
    )


def _opened(raw: bytes | str) -> tuple[bytes, dict[str, Any]]:
    """The body and its envelope; what is no envelope of kombu is a body by itself."""
    text = raw.encode() if isinstance(raw, str) else bytes(raw)
    try:
        envelope = json.loads(text)
        properties, headers = envelope["properties"], envelope.get("headers")
        body = envelope["body"]
        if not isinstance(properties, dict) or not isinstance(headers, dict | None):
            return text, {}
        if properties.get("body_encoding") == "base64":
            return base64.b64decode(body, validate=True), envelope
        return str(body).encode(), envelope
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return text, {}
