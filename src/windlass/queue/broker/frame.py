"""The frames of AMQP 0.9.1 that publish a message.

py-amqp makes an object of each message and looks at each of the properties that there are, which
costs more than everything else about sending it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from windlass.queue.model.message import Outgoing

METHOD, HEADER, BODY = 1, 2, 3
END = b"\xce"
BASIC_PUBLISH = struct.pack(">HH", 60, 40)
PERSISTENT = b"\x02"
# Which of the properties follow, in this order.
CONTENT_TYPE, HEADERS, DELIVERY_MODE = 1 << 15, 1 << 13, 1 << 12
CORRELATION_ID, REPLY_TO, EXPIRATION, MESSAGE_ID = 1 << 10, 1 << 9, 1 << 8, 1 << 7


class PublishFrames:
    """Frames for one channel and one queue. Raises ValueError about what does not fit."""

    def __init__(self, channel: int, queue: str, *, frame_max: int) -> None:
        self._channel = channel
        # Each frame has seven bytes before and one behind what it carries.
        self._most = frame_max - 8
        # The default exchange; `mandatory`: return the message if there is no such queue.
        self._method = self._frame(
            METHOD, BASIC_PUBLISH + bytes(2) + _short("") + _short(queue) + b"\x01"
        )

    def of(self, message: Outgoing) -> bytes:
        """All frames of a message."""
        body = message.body
        header = struct.pack(">HHQ", 60, 0, len(body)) + _properties(message)
        if len(header) > self._most:
            raise ValueError(f"its headers are {len(header):,} bytes, over {self._most:,}")
        parts = [self._method, self._frame(HEADER, header)]
        parts += [self._frame(BODY, part) for part in self._parts(body)]
        return b"".join(parts)

    def _parts(self, body: bytes) -> Iterator[bytes]:
        for begin in range(0, len(body), self._most):
            yield body[begin : begin + self._most]

    def _frame(self, kind: int, payload: bytes) -> bytes:
        return struct.pack(">BHI", kind, self._channel, len(payload)) + payload + END


def _properties(message: Outgoing) -> bytes:
    flags = CONTENT_TYPE | DELIVERY_MODE | MESSAGE_ID
    parts = [_short(message.content_type)]
    if message.headers:
        flags |= HEADERS
        parts.append(_table(dict(message.headers)))
    parts.append(PERSISTENT)
    for flag, value in (
        (CORRELATION_ID, message.correlation_id),
        (REPLY_TO, message.reply_to),
        (EXPIRATION, message.expires_milliseconds),
    ):
        if value is not None:
            flags |= flag
            parts.append(_short(str(value)))
    parts.append(_short(message.id))
    return struct.pack(">H", flags) + b"".join(parts)


def _short(text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > 255:
        raise ValueError(f"{text!r:.40} is {len(encoded)} bytes, over 255")
    return bytes((len(encoded),)) + encoded


def _table(values: dict[str, object]) -> bytes:
    from amqp.serialization import dumps

    table: bytes = dumps("F", [values])
    return table
