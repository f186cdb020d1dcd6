"""The states of a task, and the table of moves between them."""

from __future__ import annotations

from enum import IntEnum


class NamedCode(IntEnum):
    """A code that is stored as a number. In text it is its lower-case name."""

    def __str__(self) -> str:
        return self.name.lower()

    def __format__(self, specification: str) -> str:
        return format(str(self), specification)


class Status(NamedCode):
    """The state of a task."""

    WAITING = 0
    RUNNING = 1
    SUCCEEDED = 2
    FAILED = 3
    BLOCKED = 4
    EXTERNAL = 5
    CANCELLED = 6

    @property
    def is_final(self) -> bool:
        """Whether a task in this state has ended."""
        return self in FINAL

    @classmethod
    def named(cls, name: str) -> Status:
        """The status whose lower-case name is `name`."""
        return cls[name.upper()]


FINAL = frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELLED})

TRANSITIONS: dict[tuple[Status, Status], str] = {
    (Status.WAITING, Status.RUNNING): "a worker claimed it",
    (Status.WAITING, Status.CANCELLED): "it was cancelled before it began",
    (Status.RUNNING, Status.SUCCEEDED): "its handler returned",
    (Status.RUNNING, Status.FAILED): "its handler failed and no retry was left, or it is poison",
    (Status.RUNNING, Status.WAITING): "retry, snooze, next turn, or released by its worker",
    (Status.RUNNING, Status.RUNNING): "its worker died and another worker took it over",
    (Status.RUNNING, Status.CANCELLED): "its handler, an operator or the app cancelled it",
    (Status.FAILED, Status.WAITING): "an operator's retry, or enqueued again to replace it",
    (Status.CANCELLED, Status.WAITING): "an operator's retry, replaced, or its cron is back",
    (Status.SUCCEEDED, Status.WAITING): "it was enqueued again with its key, to replace it",
    (Status.BLOCKED, Status.WAITING): "its last slot was filled",
    (Status.BLOCKED, Status.FAILED): "a node it waits for failed",
    (Status.BLOCKED, Status.CANCELLED): "its run was cancelled, or a node before it was skipped",
    (Status.BLOCKED, Status.SUCCEEDED): "an operator skipped it",
    (Status.WAITING, Status.SUCCEEDED): "an operator skipped it",
    (Status.FAILED, Status.BLOCKED): "its flow run is retried, and it waits for nodes again",
    (Status.CANCELLED, Status.BLOCKED): "its flow run is retried, and it waits for nodes again",
    (Status.FAILED, Status.SUCCEEDED): "an operator skipped it",
    (Status.FAILED, Status.RUNNING): "its flow run is retried",
    (Status.CANCELLED, Status.RUNNING): "its flow run is retried",
    (Status.RUNNING, Status.EXTERNAL): "it was submitted to an external system",
    (Status.EXTERNAL, Status.SUCCEEDED): "the external system is done, or an operator skipped it",
    (Status.EXTERNAL, Status.FAILED): "the external system failed, or the task timed out",
    (Status.EXTERNAL, Status.WAITING): "the external system failed, and it is submitted again",
    (Status.EXTERNAL, Status.CANCELLED): "an operator or the app cancelled it",
}


def may_become(before: Status, after: Status) -> bool:
    """Whether a task may move from `before` to `after`."""
    return (before, after) in TRANSITIONS
