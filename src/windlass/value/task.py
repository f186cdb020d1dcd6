"""Task rows as values: new, claimed, and shown to people; and the terms on which they end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from windlass.errors import BadInput, BadKey
from windlass.value.cron import Schedule
from windlass.value.duration import parse_duration
from windlass.value.period import Period
from windlass.value.retry import RetryPolicy
from windlass.value.shard import COMING
from windlass.value.status import Status
from windlass.view.field import JsonText, Moment, exposed

KEEP_FAILED = parse_duration("7d")

LONGEST_KEY = 255
# Counting stops above this.
COUNTED_EXACTLY = 10_000
RESERVED = "windlass:"
# Names of switches that no kind may have: of everything, and of groups by their names.
EVERYTHING = "*"
GROUP = "group:"
PRIORITIES = range(-32_768, 32_768)


class Call(NamedTuple):
    """One call of a handler: what is enqueued, or what runs."""

    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    key: str | None
    lane: str | None = None


class NewTask(msgspec.Struct, frozen=True, gc=False):
    """A row to insert."""

    id: int
    kind: str
    task_key: str | None
    bucket: int
    priority: int
    due_at: int
    payload: str
    created_at: int


class NewLaneTask(NewTask, frozen=True, gc=False):
    """A row of a lane to insert."""

    lane: str
    lane_place: int


class NewNode(msgspec.Struct, frozen=True, gc=False):
    """The row of a node or of a flow run to insert."""

    id: int
    kind: str
    task_key: str | None
    bucket: int
    status: int
    priority: int
    due_at: int | None
    flow_id: int
    node: str
    open_slots: int
    payload: str
    created_at: int


class Claimed(msgspec.Struct, frozen=True, gc=False):
    """A row that a worker has taken, as it was then.

    Without a `batch`, the owner of its bucket only read it. `started_at` is when it was taken,
    always later than the time before: the handler's fence.
    """

    id: int
    kind: str
    task_key: str | None
    priority: int
    due_at: int
    payload: str
    attempt: int
    lost: int
    started_at: int
    bucket: int
    batch: int | None
    worker: int
    # The flow run that the node belongs to.
    flow_id: int | None = None

    @property
    def is_read(self) -> bool:
        """Whether its owner only read it, without a written claim."""
        return self.batch is None

    @property
    def fence(self) -> int:
        """The value that the row must still have when the outcome is written."""
        return self.due_at if self.batch is None else self.batch

    @property
    def tries(self) -> int:
        """Tries so far, including this one; runs lost with their worker do not count."""
        return self.attempt - self.lost


class ProgressView(msgspec.Struct, frozen=True):
    """How far a running task is, as its handler said, and when that was written."""

    done: int
    total: int | None
    note: str | None
    at: Moment

    @property
    @exposed
    def percent(self) -> float | None:
        """How much of the total is done; None if it is not known."""
        return None if not self.total else min(100.0, 100 * self.done / self.total)


class TaskView(msgspec.Struct, frozen=True, omit_defaults=False):
    """A task. Times are microseconds since the epoch; `payload` and `result` are JSON."""

    id: int
    kind: str
    key: str | None
    status: Status
    priority: int
    bucket: int
    due_at: Moment | None
    attempt: int
    lost: int
    worker: int | None
    batch: int | None
    created_at: Moment
    started_at: Moment | None
    finished_at: Moment | None
    last_status: Status | None
    remark: str | None
    lane: str | None
    payload: JsonText
    result: JsonText | None
    # Of a task that runs, if its handler says how far it is.
    progress: ProgressView | None = None

    def at(self, progress: ProgressView) -> TaskView:
        """The task with its progress."""
        return msgspec.structs.replace(self, progress=progress)

    @property
    def is_coming(self) -> bool:
        """Whether it is a copy that is still being moved from another shard."""
        return self.batch == COMING


@dataclass(frozen=True)
class FailureView:
    """An error of a task."""

    id: int
    task_id: int
    kind: str
    attempt: int
    failed_at: Moment
    error: str
    trace: str


@dataclass(frozen=True)
class TaskFilter:
    """Which tasks; None means any. `before` is an id: only older tasks."""

    kind: str | None = None
    status: Status | None = None
    key: str | None = None
    lane: str | None = None
    before: int | None = None
    created_after: Moment | None = None
    created_before: Moment | None = None

    @property
    def has_age(self) -> bool:
        return self.created_after is not None or self.created_before is not None


def check_key(kind: str, key: object) -> str:
    """`key`, if it can be a task key."""
    if not isinstance(key, str):
        raise BadKey(
            f"kind {kind!r}: key {key!r} is not text; write it as a string, for example str(order)"
        )
    if not key:
        raise BadKey(f"kind {kind!r}: the key is empty; give a key, or omit it")
    if len(key) > LONGEST_KEY:
        raise BadKey(
            f"kind {kind!r}: the key {key[:40]!r}... has {len(key)} characters; "
            f"at most {LONGEST_KEY} fit"
        )
    if key.startswith(RESERVED):
        raise BadKey(f"kind {kind!r}: key {key!r} is reserved; use another prefix")
    if not is_storable(key):
        raise BadKey(f"kind {kind!r}: key {key!r} has characters that databases cannot store")
    return key


def check_priority(kind: str, priority: object) -> int:
    """`priority`, if it can be one."""
    if isinstance(priority, bool) or not isinstance(priority, int) or priority not in PRIORITIES:
        raise BadInput(f"kind {kind!r}: priority={priority!r} is not a number from -32768 to 32767")
    return priority


def is_storable(text: str) -> bool:
    """Whether every database can store `text`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


@dataclass(frozen=True)
class Terms:
    """What the declaration of a kind says about the end of its runs.

    With `keep` None, a success with a key or a result is kept a day; others are deleted at once.
    """

    retry: RetryPolicy
    keep: int | None = None
    keep_failed: int = KEEP_FAILED
    schedule: Schedule | None = None
    period: Period | None = None
    priority: int = 0
    # Whether HTTP answers 429 and 503 say that the other side is overloaded.
    heeds_http: bool = False


class LogLine(msgspec.Struct, frozen=True):
    """One record that a handler logged."""

    at: Moment
    level: str
    logger: str
    text: str


class RunLogView(msgspec.Struct, frozen=True):
    """What one run of a task logged, oldest first; `dropped` older records were not kept."""

    id: int
    attempt: int
    worker: int | None
    ended_at: Moment
    dropped: int
    lines: list[LogLine]

    def having(self, text: str) -> RunLogView:
        """Only the lines in which `text` is, in upper or lower case."""
        wanted = text.casefold()
        lines = [line for line in self.lines if wanted in f"{line.logger} {line.text}".casefold()]
        return msgspec.structs.replace(self, lines=lines)
