"""How messages of a queue are received: their ids, their lanes, and what a handler is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast, get_args, get_origin

import msgspec

from windlass.core.task.kind import Kind
from windlass.errors import BadDeclaration, BadInput
from windlass.queue.model.message import LONGEST_ID, Delivered, ReceivedMessage, hash_of, id_of_body
from windlass.queue.model.queue import Queue
from windlass.value.payload import Arguments, decoder

# The headers that senders without the property message_id use.
ID_HEADERS = ("message-id", "message_id", "id")
MOST_AT_ONCE = 10_000
LONGEST_LANE = 255

Identity = Literal["message", "body"] | Callable[[ReceivedMessage], str]
Lane = Callable[[Any], str | None]


class NoId(BadInput):
    """A message cannot be told from others."""


@dataclass(frozen=True)
class ConsumeTerms:
    """How a kind consumes its queue. Times are microseconds."""

    queue: Queue
    # How many messages a call of the handler gets at most; None: each by itself.
    many: int | None
    # How long the first message of a call waits for others; 0: not at all.
    wait: int
    prefetch: int
    remember: int
    identity: Identity
    lane: Lane | None
    # What the handler's parameter is annotated with: of one message.
    wanted: Any

    @cached_property
    def _decode(self) -> Callable[[bytes], Any]:
        return decoder(self.wanted).decode

    def id_of(self, delivery: Delivered) -> str:
        """The id of a message; NoId if it has none."""
        if callable(self.identity):
            given: object = self.identity(self.message(delivery, "", 1))
        elif self.identity == "body":
            given = id_of_body(self.queue.name, delivery.body)
        else:
            named = (delivery.headers.get(name) for name in ID_HEADERS)
            given = delivery.id or next((each for each in named if each), None)
        if given is None or given == "":
            raise NoId(
                "the message has no id: neither the property message_id nor a header "
                f"{', '.join(ID_HEADERS)}; let the sender set one, or declare "
                'consume(..., identity="body") if equal bodies are one message'
            )
        text = str(given)
        return text if len(text) <= LONGEST_ID and text.isprintable() else f"hash-{hash_of(text)}"

    def value_of(self, message: ReceivedMessage) -> object:
        """What the handler gets for a message; raises if its body does not fit."""
        if self.wanted is ReceivedMessage:
            return message
        if self.wanted is bytes:
            return message.body
        try:
            return self._decode(message.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise BadInput(f"the body does not fit the handler: {problem}") from None

    def lane_of(self, value: object) -> str | None:
        """The lane of a message; None without one."""
        if self.lane is None:
            return None
        found = self.lane(value)
        if found is None:
            return None
        if not isinstance(found, str) or not 0 < len(found) <= LONGEST_LANE:
            raise BadInput(
                f"lane={found!r:.80} of the message is not a text of up to {LONGEST_LANE} letters"
            )
        return found if found.isprintable() else f"hash-{hash_of(found)}"

    def message(self, delivery: Delivered, name: str, attempt: int) -> ReceivedMessage:
        return ReceivedMessage(
            name, delivery.body, delivery.content_type, delivery.headers, self.queue.name, attempt
        )


def is_consumer(kind: Kind) -> bool:
    return isinstance(kind.face_terms, ConsumeTerms)


def terms_of(kind: Kind) -> ConsumeTerms:
    return cast(ConsumeTerms, kind.face_terms)


def wanted_type(name: str, arguments: Arguments, *, many: bool) -> Any:
    """The type of one message, by the annotation of the handler's only parameter."""
    parameters = list(arguments.signature.parameters.values())
    positional = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    taken = [each for each in parameters if each.kind in positional]
    needed = [each for each in taken[1:] if each.default is each.empty]
    keywords = [
        each for each in parameters if each.kind is each.KEYWORD_ONLY and each.default is each.empty
    ]
    if not taken or needed or keywords:
        raise BadDeclaration(
            f"consume: {name!r} must take one argument, the "
            f"{'messages' if many else 'message'}; its parameters are {arguments.signature}"
        )
    annotation = arguments.types.get(taken[0].name, Any)
    if not many:
        return annotation
    if annotation in (Any, list):
        return Any
    if get_origin(annotation) is not list:
        raise BadDeclaration(
            f"consume: with many= {name!r} gets a list; annotate its parameter with list[...]"
        )
    return get_args(annotation)[0]


def check_can_decode(name: str, wanted: Any) -> None:
    """Refuse an annotation that no JSON can fit."""
    if wanted in (ReceivedMessage, bytes):
        return
    try:
        decoder(wanted)
    except (TypeError, NotImplementedError, RuntimeError) as problem:
        raise BadDeclaration(
            f"consume: the annotation of {name!r} cannot be checked: {problem}"
        ) from None


def plain(headers: str) -> Mapping[str, Any]:
    """Headers that were kept as JSON."""
    found: dict[str, Any] = msgspec.json.decode(headers, type=dict[str, Any])
    return found
