"""What the API answers with: the shared parts of its models.

Names are those of Python. Moments are ISO 8601 in UTC, spans of time are seconds. What users gave,
such as payloads and keys, travels as text, because a browser cannot hold every number.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from windlass.clock import to_datetime
from windlass.value.key import shown
from windlass.value.task import LONGEST_KEY

T = TypeVar("T")


class View(BaseModel):
    """An answer; it can be made of an object that has the same names."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class Body(BaseModel):
    """What a request may have in it, and nothing else."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _moment(given: object) -> object:
    if isinstance(given, int):
        return to_datetime(given)
    return given.astimezone(UTC) if isinstance(given, datetime) else given


def _seconds(given: object) -> object:
    return given.total_seconds() if isinstance(given, timedelta) else given


Moment = Annotated[datetime, BeforeValidator(_moment)]
Seconds = Annotated[float, BeforeValidator(_seconds)]
Names = tuple[str, ...]
# A moment that somebody asks for.
When = AwareDatetime
# A key of a source, for people.
KeyText = Annotated[str, BeforeValidator(shown)]

StatusName = Annotated[
    Literal["waiting", "running", "succeeded", "failed", "blocked", "external", "cancelled"],
    BeforeValidator(str),
]
Number = Annotated[int, Field(ge=1, le=2**63 - 1)]

# Text that every database can keep.
STORABLE = r"^[^\x00]*$"
Reason = Annotated[str, StringConstraints(max_length=1_000, pattern=STORABLE)]
Code = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_KEY, pattern=STORABLE)]


class Page(View, Generic[T]):
    """Part of a list. `next` is the cursor of what follows; null at the end.

    `missing` names the shards that could not be asked: what they have is not in the list.
    """

    items: list[T]
    next: str | None = None
    missing: Names = ()


class Done(View):
    """What an action did, in words, and how many rows it changed."""

    message: str
    changed: int = 1


class FailureOut(View):
    """An error of a task."""

    id: int
    task_id: int
    kind: str
    attempt: int
    failed_at: Moment
    error: str
    trace: str


def many(model: type[T], found: Iterable[Any]) -> list[T]:
    """Views of all that was found."""
    assert issubclass(model, View)
    return [model.model_validate(each) for each in found]
