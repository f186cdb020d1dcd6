"""What callers give to control runs: names, data and expiry, checked."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from windlass.clock import from_datetime, to_datetime
from windlass.control.model.step import LONGEST_NAME, StepName
from windlass.errors import (
    BadDuration,
    BadInput,
    BadKey,
    NotSerializable,
    PastTime,
    PayloadTooLarge,
)
from windlass.value.duration import Duration, parse_duration
from windlass.value.payload import LARGEST_PAYLOAD, LARGEST_RESULT, encode_value
from windlass.value.task import is_storable


class ControlKey(NamedTuple):
    """Which control run: its name and its partition."""

    name: str
    partition: str = ""

    def __str__(self) -> str:
        return f"{self.name!r} ({self.partition!r})" if self.partition else repr(self.name)

    @property
    def cursor(self) -> str:
        """The cursor of the page after this run."""
        return msgspec.json.encode(self).decode()


class Expires(NamedTuple):
    """When a run may be taken over: this long after its start, or at a moment."""

    after: int = 0
    at: int | None = None

    def moment(self, now: int) -> int:
        if self.at is None:
            return now + self.after
        if self.at <= now:
            raise PastTime(
                f"expires={to_datetime(self.at).isoformat()} has passed (it is "
                f"{to_datetime(now).isoformat(timespec='seconds')}); give a later moment, or a "
                'duration such as "2h"'
            )
        return self.at


Expiry = Duration | datetime


def check_once(once: object) -> bool:
    """BadInput for anything but True and False."""
    if not isinstance(once, bool):
        raise BadInput(f"once={once!r} is neither True nor False")
    return once


def parse_expires(given: Expiry | None) -> Expires | None:
    """`given`, a duration or a moment."""
    if given is None:
        return None
    if not isinstance(given, datetime):
        return Expires(after=parse_duration(given, what="expires"))
    if given.tzinfo is None:
        raise BadDuration(
            f"expires={given.isoformat()} has no time zone; give an aware datetime, such as "
            "datetime.now(UTC) + timedelta(hours=2)"
        )
    return Expires(at=from_datetime(given))


def check_key(name: object, partition: object) -> ControlKey:
    """The key of a run; BadKey if it cannot be one."""
    if not name or (isinstance(name, str) and not name.strip()):
        raise BadKey("control: the run has no name; give one of 1 to 255 characters")
    return ControlKey(_check_text(name, "name"), _check_text(partition, "partition"))


def parse_cursor(cursor: str | None) -> ControlKey | None:
    """The last run of the page before."""
    if cursor is None:
        return None
    try:
        return check_key(*msgspec.json.decode(cursor, type=tuple[str, str]))
    except msgspec.MsgspecError:
        raise BadInput(f"{cursor!r} is not the cursor of a page; begin again") from None


def check_data(
    data: object, key: ControlKey, *, what: str = "data", largest: int = LARGEST_PAYLOAD
) -> Any:
    """`data` as it will be read back from JSON."""
    try:
        encoded = encode_value(data)
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise NotSerializable(
            f"control {key}: {what} cannot be kept as JSON: {problem}",
            kind=key.name,
            argument=what,
            given=data,
        ) from problem
    if len(encoded) > largest:
        raise PayloadTooLarge(
            f"control {key}: {what} is {len(encoded):,} bytes as JSON, over the limit of "
            f"{largest:,}; store it and keep its key",
            kind=key.name,
            argument=what,
        )
    return msgspec.json.decode(encoded)


def check_step_data(data: object, key: ControlKey, step: StepName) -> Any:
    """`data` of a step, as it will be read back from JSON."""
    return check_data(data, key, what=f"the data of step {step!r}", largest=LARGEST_RESULT)


def _check_text(given: object, what: str) -> str:
    if not isinstance(given, str):
        raise BadKey(f"control: {what} {given!r} is not text; write it as a string")
    if len(given) > LONGEST_NAME:
        raise BadKey(
            f"control: the {what} {given[:40]!r}... has {len(given)} characters; "
            f"at most {LONGEST_NAME} fit"
        )
    if not is_storable(given):
        raise BadKey(f"control: {what} {given!r} has characters that databases cannot store")
    return given
