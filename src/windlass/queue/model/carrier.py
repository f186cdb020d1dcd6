"""The protocol between workers and consumers: what is carried, and what is answered.

`docs/reference/carrier.md` describes it for programs in other languages. A message is a JSON
object, and so is its reply. A consumer ignores members that it does not know. What an old consumer
would misunderstand gets another number of the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from windlass.clock import SECOND
from windlass.errors import BadInput, Retry
from windlass.queue.model.queue import Queue
from windlass.value import report
from windlass.value.duration import parse_duration
from windlass.value.load.overload import delay_after
from windlass.value.outcome import (
    MISFIT_DELAY,
    Cancelled,
    Failed,
    Outcome,
    Retried,
    Snoozed,
    Succeeded,
)
from windlass.value.task import Terms

PROTOCOL = 1
# How long a consumer may take if the kind has no time-out.
DEFAULT_TIMEOUT = parse_duration("10m")
# A consumer takes more than it runs at once if each may take no longer than this.
LONGEST_BUFFERED = parse_duration("1m")
# How long a message may wait in the queue, beside the time that it waits in a consumer.
WAIT = parse_duration("10s")
LONGEST_DELAY = parse_duration("365d")
# A queue for replies that nobody reads is deleted after an hour.
REPLIES_EXPIRE = 3_600_000

Said = Literal[
    "succeeded", "failed", "retry", "cancelled", "snoozed", "overloaded", "refused", "expired"
]


class Parcel(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run that is carried to a consumer. Times are seconds since the epoch."""

    windlass: int
    # The reply must have the same id. It is never used again.
    id: str
    kind: str
    # What the handler is called with, by the names of its parameters.
    arguments: msgspec.Raw
    reply_to: str
    task: int
    attempt: int
    # The number of the try; runs that were lost with their worker do not count.
    tries: int
    # A number that grows with every attempt of the task.
    fence: int
    due_at: float
    # How long the handler may take, in seconds.
    timeout: float
    # After this moment the worker no longer waits for the reply. What may end later does not begin.
    deadline: float
    key: str | None = None
    # The trace context of the caller, as headers of W3C Trace Context.
    trace: dict[str, str] | None = None

    def comes_too_late(self, now: float) -> bool:
        """Whether it may end after its deadline if it begins now."""
        return now + self.timeout > self.deadline


class RunReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a carried run ended."""

    windlass: int
    id: str
    outcome: Said
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
    # The traceback, as text.
    trace: str = ""
    # In how many seconds to try again.
    after: float | None = None
    # Whether the failure is final, whatever retries the kind has.
    final: bool = False


class _Envelope(msgspec.Struct):
    """What every version of the protocol has."""

    windlass: int
    id: str = ""
    reply_to: str = ""


class NotUnderstood(BadInput):
    """A message or a reply that does not follow the protocol."""

    def __init__(self, text: str, *, id: str = "", reply_to: str = "") -> None:  # noqa: A002
        super().__init__(text)
        self.id = id
        self.reply_to = reply_to


def reply_queue(queue: Queue, name: str) -> Queue:
    """A queue for replies about what is carried by `queue`."""
    expires = {"x-expires": REPLIES_EXPIRE}
    return Queue(queue.url, name, arguments=expires, options=queue.options)


def encode(message: Parcel | RunReply) -> bytes:
    """The body of a message."""
    return msgspec.json.encode(message)


def encode_arguments(arguments: Mapping[str, object]) -> bytes:
    """Arguments as JSON. Raises TypeError or ValueError if they cannot be."""
    return msgspec.json.encode(arguments, enc_hook=_plain)


def read_parcel(body: bytes) -> Parcel:
    """The run in a message. Raises NotUnderstood with what is known about it."""
    parcel: Parcel = _read(body, Parcel, "message")
    return parcel


def read_reply(body: bytes) -> RunReply:
    """The reply in a message. Raises NotUnderstood with the id, if it has one."""
    reply: RunReply = _read(body, RunReply, "reply")
    return reply


def reply_of(parcel_id: str, outcome: Outcome) -> RunReply:
    """How a Python handler ended, as a reply. Its own code has decided about retries."""
    match outcome:
        case Succeeded():
            result = msgspec.Raw((outcome.result or "null").encode())
            return RunReply(PROTOCOL, parcel_id, "succeeded", result=result)
        case Retried(is_answer=True):
            return RunReply(
                PROTOCOL, parcel_id, "refused", error=outcome.error, trace=outcome.trace
            )
        case Retried():
            return RunReply(
                PROTOCOL,
                parcel_id,
                "retry",
                error=outcome.error,
                trace=outcome.trace,
                after=outcome.delay / SECOND,
            )
        case Failed():
            return RunReply(
                PROTOCOL, parcel_id, "failed", error=outcome.error, trace=outcome.trace, final=True
            )
        case Cancelled():
            return RunReply(PROTOCOL, parcel_id, "cancelled", error=outcome.reason)
        case Snoozed():
            after = outcome.delay / SECOND
            if outcome.overload is None:
                return RunReply(PROTOCOL, parcel_id, "snoozed", after=after)
            return RunReply(PROTOCOL, parcel_id, "overloaded", error=outcome.overload, after=after)
    text = f"a handler in a consumer cannot end as {type(outcome).__name__.lower()}"
    return RunReply(PROTOCOL, parcel_id, "failed", error=text, final=True)


def outcome_of(reply: RunReply, terms: Terms, *, tries: int, random: float) -> Outcome:
    """The outcome that a worker writes for a reply."""
    error = report.text_of(reply.error or f"the consumer says that it {reply.outcome}")
    trace = report.trace_of(reply.trace or error)
    delay = _delay(reply.after)
    match reply.outcome:
        case "succeeded":
            return report.done(reply.result if bytes(reply.result) != b"null" else None)
        case "failed" if reply.final:
            return Failed(error, trace)
        case "failed":
            return report.failed(error, trace, terms.retry, tries=tries, as_error=Exception())
        case "retry":
            judged = report.failed(error, trace, terms.retry, tries=tries, as_error=Retry())
            if isinstance(judged, Failed):
                return Failed(report.text_of(f"no retry was left: {error}"), trace)
            return judged if delay is None else Retried(delay, error, trace)
        case "cancelled":
            return Cancelled(report.text_of(reply.error))
        case "snoozed":
            return Snoozed(delay or 0)
        case "overloaded":
            waits = delay_after(None, random=random) if delay is None else delay
            return Snoozed(waits, overload=error)
        case "refused":
            # Other versions of the code may take it: wait, as rows do whose arguments do not fit.
            return Retried(MISFIT_DELAY, error, trace, is_answer=True)
        case "expired":
            # Not at once: the clock of the consumer may be wrong.
            return Snoozed(SECOND)


def _delay(after: float | None) -> int | None:
    if after is None or not 0 <= after <= LONGEST_DELAY / SECOND:
        return None
    return round(after * SECOND)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be JSON")


def _read(body: bytes, wanted: type[Any], what: str) -> Any:
    try:
        envelope = msgspec.json.decode(body, type=_Envelope)
    except (msgspec.DecodeError, ValueError) as problem:
        raise NotUnderstood(f"this {what} is not of the carrier's protocol: {problem}") from None
    known = {"id": envelope.id, "reply_to": envelope.reply_to}
    if envelope.windlass != PROTOCOL:
        raise NotUnderstood(
            f"this {what} is of protocol {envelope.windlass}, and this side speaks protocol "
            f"{PROTOCOL}; run the same release of Windlass on both sides",
            **known,
        )
    try:
        return msgspec.json.decode(body, type=wanted)
    except (msgspec.DecodeError, ValueError) as problem:
        raise NotUnderstood(
            f"this {what} is not as the protocol says: {problem}", **known
        ) from None
