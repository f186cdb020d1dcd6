"""The trace context of a caller, as one more member at the end of a payload.

Code that does not know it reads past it: a decoder of arguments ignores members that are not
parameters. A handler with `**kwargs` would get it from a worker of an older release, so payloads of
such a kind do not have it.
"""

from __future__ import annotations

import msgspec

TRACE = "windlass:trace"
# For a carrier of many tasks: each run is a trace of its own, and only linked to the enqueue.
MANY = "windlass-many"

Carrier = dict[str, str]


class _Carried(msgspec.Struct):
    trace: Carrier | None = msgspec.field(default=None, name=TRACE)


_carried = msgspec.json.Decoder(_Carried).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def with_trace(payload: str, carrier: Carrier | None) -> str:
    """The payload with the context of its caller; as it is without one."""
    if not carrier:
        return payload
    comma = "" if payload == "{}" else ","
    return f'{payload[:-1]}{comma}"{TRACE}":{_encode(carrier).decode()}}}'


def trace_of(payload: str) -> Carrier | None:
    """The context of the caller; None without one, or if it cannot be read."""
    if TRACE not in payload:
        return None
    try:
        return _carried(payload).trace
    except (msgspec.DecodeError, ValueError):
        return None


def without_trace(payload: str) -> str:
    """The payload with nothing but the arguments, which stay as they are written."""
    if TRACE not in payload:
        return payload
    try:
        members = _members(payload)
    except (msgspec.DecodeError, ValueError):
        return payload
    if members.pop(TRACE, None) is None:
        return payload
    return _encode(members).decode()
