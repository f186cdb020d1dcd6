"""Tasks that are enqueued in the transaction of a request's session."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, ParamSpec, TypedDict, TypeVar, Unpack

if TYPE_CHECKING:
    from windlass.core.task.declare import Enqueue, OnConflict, OnPast
    from windlass.value.duration import Duration

P = ParamSpec("P")
R = TypeVar("R")


class UsingOptions(TypedDict, total=False):
    """The options of `using`, beside `conn`."""

    key: str | None
    lane: str | None
    delay: Duration | None
    at: datetime | None
    priority: int | None
    on_conflict: OnConflict | None
    on_past: OnPast | None


@dataclass(frozen=True)
class Joined:
    """Enqueues in the transaction of `conn`: `joined(send_mail, key="order-7").enqueue(...)`.

    The session stays the caller's: nothing is committed or rolled back here.
    """

    conn: object

    def __call__(self, task: Enqueue[P, R], **options: Unpack[UsingOptions]) -> Enqueue[P, R]:
        """The task, to be enqueued with these options in the transaction."""
        return task.using(conn=self.conn, **options)
