"""Messages as values: to be sent, delivered by a broker, or kept because they failed."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from typing import Any, NamedTuple, TypeGuard

import msgspec

from windlass.errors import BadInput
from windlass.value.status import Status
from windlass.view.field import JsonText, Moment

JSON = "application/json"
BYTES = "application/octet-stream"
LONGEST_ID = 255
LONGEST_CONTENT_TYPE = 100
# They must fit into one frame of AMQP, which has 128 KB.
LARGEST_HEADERS = 32_000
# How much of a body is shown in a list.
SHOWN_BODY = 2_000
# What is larger may be more than a database takes in one statement.
LARGEST_KEPT = 8_000_000
# So much of the body of a larger message is kept, for people: it cannot be handled again.
KEPT_BEGINNING = 64_000
CUT_CODINGS = ("cut-utf-8", "cut-base64")
LARGEST_KEPT_HEADERS = 256_000


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to send. Its `id` stays the same when it is sent again."""

    id: str
    body: bytes
    content_type: str = JSON
    headers: Mapping[str, Any] = field(default_factory=dict)
    # Properties of AMQP: the queue for a reply, and what the reply is about.
    reply_to: str | None = None
    correlation_id: str | None = None
    # After how many milliseconds the broker may drop it (RabbitMQ only).
    expires_milliseconds: int | None = None


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message that a broker delivered and waits to hear about."""

    body: bytes
    # The property message_id; None if the sender gave none.
    id: str | None
    content_type: str
    content_encoding: str
    headers: Mapping[str, Any]
    reply_to: str | None
    correlation_id: str | None
    # Whether it was delivered before, as far as the broker knows.
    is_again: bool
    # What the broker calls this delivery, and the connection that it came by.
    tag: Any = field(repr=False)
    epoch: int = field(repr=False)


# How a refusal begins that says that there is no such queue.
NO_QUEUE = "there is no queue"


class Sent(NamedTuple):
    """What became of a group of messages, by their place in it."""

    # The broker has confirmed these.
    confirmed: set[int]
    # It refused these, and why: a queue is full, or there is none.
    refused: dict[int, str]

    @property
    def gone(self) -> set[int]:
        """Those that were refused because there is no such queue."""
        return {place for place, why in self.refused.items() if why.startswith(NO_QUEUE)}


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message as a handler sees it: annotate its parameter with this type to get all of it."""

    id: str
    body: bytes
    content_type: str
    headers: Mapping[str, Any]
    # The name of the queue that it came from.
    queue: str
    # The number of this try, from 1.
    attempt: int

    @property
    def too_large(self) -> str | None:
        """What of it is too large for some database; None if it can be kept."""
        if len(self.body) > LARGEST_KEPT:
            return f"its body of {len(self.body):,} bytes is"
        size = len(plain_headers(self.headers))
        return f"its headers of {size:,} characters are" if size > LARGEST_KEPT_HEADERS else None


class FailedMessage(msgspec.Struct, frozen=True):
    """A message that is tried again, or that failed. `body` is text, or base64 if `is_binary`."""

    id: int
    kind: str
    queue: str
    message_id: str
    status: Status
    tries: int
    received_at: Moment
    due_at: Moment | None
    failed_at: Moment | None
    lane: str | None
    content_type: str
    headers: JsonText
    body: str
    is_binary: bool
    error: str | None
    # Whether only the beginning of the body is here: such a message cannot be tried again.
    is_cut: bool = False


def hash_of(message_id: str) -> str:
    """A short name for an id, for the inbox."""
    return blake2b(message_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def id_of_body(queue: str, body: bytes) -> str:
    """The id of a message that is known by its body: equal bodies of a queue are one message."""
    return f"body-{sha256(queue.encode() + bytes(1) + body).hexdigest()}"


class Stored(NamedTuple):
    """A body as the database keeps it."""

    coding: str
    text: str

    @property
    def body(self) -> bytes:
        return base64.b64decode(self.text) if self.is_binary else self.text.encode()

    @property
    def is_binary(self) -> bool:
        return self.coding.endswith("base64")

    @property
    def is_cut(self) -> bool:
        """Whether only the beginning of the body was kept."""
        return self.coding in CUT_CODINGS


def stored(body: bytes) -> Stored:
    """The body as text, or in base64 if it is not text that every database can keep."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = "\x00"
    if "\x00" in text:
        return Stored("base64", base64.b64encode(body).decode())
    return Stored("utf-8", text)


def beginning(body: bytes) -> Stored:
    """The beginning of a body that is too large to be kept."""
    some = body[:KEPT_BEGINNING]
    for end in range(len(some), max(0, len(some) - 4), -1):
        # Not in the middle of a character.
        kept = stored(some[:end])
        if not kept.is_binary:
            return Stored(f"cut-{kept.coding}", kept.text)
    kept = stored(some)
    return Stored(f"cut-{kept.coding}", kept.text)


def is_name(given: object, longest: int) -> TypeGuard[str]:
    """Whether it is a text that can be printed, of 1 to `longest` characters."""
    return isinstance(given, str) and 0 < len(given) <= longest and given.isprintable()


def check_headers(what: str, headers: object) -> None:
    """Raises BadInput if the headers of a message do not fit into every broker."""
    if not isinstance(headers, Mapping):
        raise BadInput(f"{what}: headers={headers!r:.80} is not a mapping")
    for name in headers:
        if not is_name(name, LONGEST_ID) or len(name.encode()) > LONGEST_ID:
            raise BadInput(
                f"{what}: the header {name!r:.80} has a name that is not a printable text of 1 to "
                f"{LONGEST_ID} bytes in UTF-8"
            )
    for name, value in headers.items():
        if not _is_plain(value):
            raise BadInput(
                f"{what}: the header {name!r:.80} is {value!r:.80}; give text, a number of up to "
                "64 bits, true, false, or nothing"
            )
    size = len(plain_headers(headers))
    if size > LARGEST_HEADERS:
        raise BadInput(
            f"{what}: the headers are {size:,} bytes, over the limit of {LARGEST_HEADERS:,}; put "
            "such data into the body"
        )


def _is_plain(value: object) -> bool:
    """Whether every broker has such a value."""
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 63
    if isinstance(value, str):
        # Neither half characters nor what PostgreSQL cannot keep.
        return not any("\ud800" <= letter <= "\udfff" or letter == "\0" for letter in value)
    return value is None or isinstance(value, float)


def plain_headers(headers: Mapping[str, Any]) -> str:
    """Headers as JSON; what JSON does not have is written as text."""
    try:
        return msgspec.json.encode(dict(headers), enc_hook=str).decode()
    except (TypeError, ValueError, UnicodeError, RecursionError):
        return msgspec.json.encode(
            {repr(key): repr(value)[:SHOWN_BODY] for key, value in headers.items()}
        ).decode()


def cut_headers(headers: Mapping[str, Any]) -> str:
    """Headers as JSON, for people: without what is too large."""
    small = {
        name[:LONGEST_ID]: value
        for name, value in headers.items()
        if len(plain_headers({name: value})) <= SHOWN_BODY
    }
    found = plain_headers(small)
    return found if len(found) <= LARGEST_KEPT_HEADERS else "{}"
