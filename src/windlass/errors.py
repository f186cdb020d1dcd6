"""Every error that Windlass raises, and the three signals a handler may raise.

WindlassError
    BadInput (also a ValueError)        what the caller gave cannot be used; nothing was changed
        BadDeclaration                  an option of a kind, or its function, makes no sense
            DuplicateKind
        BadDuration, BadSchedule, BadRate, BadWindow, BadBreaker
        BadArgument                     an argument does not fit the handler's annotation
            NotSerializable, PayloadTooLarge
        BadKey, PastTime, BadConnection, BadDatabase
        BadSource                       a table to mirror or follow that cannot be used
        BadStep                         a step of a run that cannot be, or is out of order
        BadMembers                      a URL that says who is alive, and cannot be used
        BadFlow                         a graph that cannot run, or a node that cannot be changed
        InvalidQuantity                 a quantity that the ledger cannot count
    UnknownKind, DuplicateKey, TaskNotFound, ItemNotFound
    UnknownFlow, UnknownNode, UnknownHandle, UnknownAlert
    Unknown                             nothing else has that name
    NotPossible                         the current state does not allow what an operator asks for
    ExternalFailed                      raised by submit: the external system refuses it for good
    TaskFailed, TaskCancelled, ResultTimeout
    AlreadyRunning                      somebody else runs it
    RunLost                             the run was taken over, or released
    IdConflict                          an id of the ledger was used for something else
    Refused                             what the ledger was asked for cannot be, and is remembered
        OutOfStock, UnknownSku, UnknownDeduction, OverReturn, NotHeld
    HeldBack                            a switch or a breaker keeps the kind from running
    NoContext                           context() was called outside a handler
    SchemaMismatch                      the tables are missing, older or newer than this Windlass
    DatabaseUnavailable                 still failing after all retries
        Blocked                         somebody else holds the rows for too long
    MembersUnavailable                  etcd or ZooKeeper did not answer
    Signal                              not an error: what a handler says about its own task
        Retry, Cancel, Snooze
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial


class WindlassError(Exception):
    """The parent of every error that Windlass raises."""


class BadInput(WindlassError, ValueError):
    """What the caller gave cannot be used, and nothing was changed."""


class BadDeclaration(BadInput):
    """A declared kind cannot work as it is written."""


class DuplicateKind(BadDeclaration):
    """Two functions were declared under one kind."""

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"kind {kind!r} is declared twice; give one of the two functions another name="
        )
        self.kind = kind


class BadDuration(BadInput):
    """A duration that cannot be read."""


class BadSchedule(BadInput):
    """A cron expression or a time zone that cannot be read."""


class BadRate(BadInput):
    """A rate that cannot be read."""


class BadWindow(BadInput):
    """A time-of-day window that cannot be read."""


class BadBreaker(BadInput):
    """A circuit breaker that cannot be read."""


class BadArgument(BadInput):
    """An argument does not fit the annotation of the handler."""

    def __init__(
        self, message: str, *, kind: str, argument: str | None = None, given: object = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.argument = argument
        self.given = given


class NotSerializable(BadArgument):
    """An argument cannot be written as JSON."""


class PayloadTooLarge(BadArgument):
    """The arguments are larger than the limit of the app."""


class BadKey(BadInput):
    """A task key that is empty, too long, or not text."""


class PastTime(BadInput):
    """A task was to start at a moment that has passed."""


class BadConnection(BadInput):
    """`conn=` is not a connection that Windlass can join."""


class BadDatabase(BadInput):
    """A database URL that cannot be used."""


class BadSource(BadInput):
    """A table that cannot be mirrored or followed."""


class BadStep(BadInput):
    """A step that is neither a positive number nor a name, or that is out of order."""


class BadMembers(BadInput):
    """A URL of etcd or ZooKeeper that cannot be used."""


class BadFlow(BadInput):
    """A graph of nodes that cannot run, or a change that it does not allow."""


class UnknownFlow(WindlassError):
    """No flow or template of that name, or no run of that id."""


class UnknownNode(WindlassError):
    """A run has no node of that name."""

    def __init__(self, run: int, node: str) -> None:
        super().__init__(f"run {run} has no node {node!r}; nodes() lists those it has")
        self.run = run
        self.node = node


class UnknownHandle(WindlassError):
    """Nothing is known of what an external system is said to have ended."""

    def __init__(self, handle: object) -> None:
        super().__init__(
            f"no external task has the handle {handle!r}; notify with the handle that submit "
            "returned, or with the task"
        )
        self.handle = handle


class UnknownAlert(WindlassError):
    """There is no such alert, or it was pruned."""


class Unknown(WindlassError):
    """There is nothing of that name."""


class NotPossible(WindlassError):
    """The current state does not allow what an operator asks for."""


class ExternalFailed(WindlassError):
    """What an external system was asked to do has failed over there, or is refused for good.

    Raise it in `submit` if submitting again could not help: it counts against `retries`. Any other
    error says that the system is not there, and it is submitted again when it is.
    """


class InvalidQuantity(BadInput):
    """A quantity that is no whole number, or out of range."""

    def __init__(self, sku: str, quantity: object, why: str) -> None:
        super().__init__(f"sku {sku!r}: quantity {quantity!r} {why}")
        self.sku = sku
        self.quantity = quantity
        self.why = why

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.sku, self.quantity, self.why)


class UnknownKind(WindlassError):
    """No kind of that name is declared in this app."""

    def __init__(self, kind: str, declared: list[str] | None = None) -> None:
        known = ", ".join(sorted(declared or [])) or "none"
        super().__init__(f"kind {kind!r} is not declared in this app; declared: {known}")
        self.kind = kind


class DuplicateKey(WindlassError):
    """A task with that key exists, and the caller asked to be told."""

    def __init__(self, kind: str, key: str, *, task_id: int, status: str) -> None:
        super().__init__(
            f"kind {kind!r} already has a {status} task with key {key!r} (task {task_id}); "
            'use on_conflict="skip" to take it as it is'
        )
        self.kind = kind
        self.key = key
        self.task_id = task_id


class TaskNotFound(WindlassError):
    """There is no such row: it was never committed, or it ended and was not kept."""

    def __init__(self, task_id: int) -> None:
        super().__init__(
            f"task {task_id} not found: it was never committed, or it ended and was not kept"
        )
        self.task_id = task_id


class ItemNotFound(WindlassError):
    """A rolling kind has no item of that code, or the source of a sweep no row of that key."""

    def __init__(self, kind: str, code: str, *, of: str = "rolling") -> None:
        cure = "add it first" if of == "rolling" else "check the key"
        super().__init__(f"{of} {kind!r} has no item {code!r}; {cure}")
        self.kind = kind
        self.code = code


class HeldBack(WindlassError):
    """Something keeps the kind from running, and waiting would not help."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(f"kind {kind!r} does not run now: {why}")
        self.kind = kind
        self.why = why


class AlreadyRunning(WindlassError):
    """The run is held by somebody, who has neither ended nor expired."""

    def __init__(
        self,
        name: str,
        partition: str = "",
        *,
        who: str | None = None,
        since: datetime | None = None,
        step: int | str | None = None,
    ) -> None:
        of = f" ({partition!r})" if partition else ""
        began = "" if since is None else f" since {since.isoformat(timespec='seconds')}"
        at = "" if step is None else f", at step {step!r}"
        super().__init__(f"control {name!r}{of}: {who} has been running it{began}{at}")
        self.name = name
        self.partition = partition
        self.who = who
        self.since = since
        self.step = step

    def __reduce__(self) -> tuple[object, ...]:
        again = partial(type(self), who=self.who, since=self.since, step=self.step)
        return again, (self.name, self.partition)


class RunLost(WindlassError):
    """The run is no longer this holder's; what it does from now on is not recorded."""

    def __init__(self, name: str, partition: str = "", *, why: str) -> None:
        of = f" ({partition!r})" if partition else ""
        super().__init__(f"control {name!r}{of}: {why}")
        self.name = name
        self.partition = partition
        self.why = why

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), why=self.why), (self.name, self.partition)


class IdConflict(WindlassError):
    """The id was used before, for something else; the first answer stands."""

    def __init__(self, id: str, difference: str) -> None:
        super().__init__(
            f"id {id!r} was used before, for something else ({difference}); use a new id"
        )
        self.id = id
        self.difference = difference

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.id, self.difference)


class Refused(WindlassError):
    """The ledger cannot do it, and says so under this id for ever; a new try needs a new id."""

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.facts = facts

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), tuple(self.facts.values())


class OutOfStock(Refused):
    """Less is available than was wanted; nothing was deducted, of no line."""

    def __init__(self, sku: str, wanted: int, available: int) -> None:
        super().__init__(
            f"sku {sku!r}: {wanted} wanted, {available} available; nothing was changed",
            sku=sku,
            wanted=wanted,
            available=available,
        )
        self.sku = sku
        self.wanted = wanted
        self.available = available


class UnknownSku(Refused):
    """The ledger has never received any of this."""

    def __init__(self, sku: str) -> None:
        super().__init__(f"sku {sku!r} is unknown; restock it first", sku=sku)
        self.sku = sku


class UnknownDeduction(Refused):
    """Nothing was deducted under this id."""

    def __init__(self, id: str) -> None:
        super().__init__(f"nothing was deducted under id {id!r}", id=id)
        self.id = id


class OverReturn(Refused):
    """More was to be given back than is left of what was deducted; nothing was given back."""

    def __init__(self, sku: str, wanted: int, returnable: int) -> None:
        super().__init__(
            f"sku {sku!r}: {wanted} to give back, {returnable} left of what was deducted; "
            "nothing was changed",
            sku=sku,
            wanted=wanted,
            returnable=returnable,
        )
        self.sku = sku
        self.wanted = wanted
        self.returnable = returnable


class NotHeld(Refused):
    """There is no hold to confirm: it has lapsed, was voided, or was refused."""

    def __init__(self, id: str, status: str) -> None:
        super().__init__(
            f"deduction {id!r} is {status} and cannot be confirmed", id=id, status=status
        )
        self.id = id
        self.status = status


class TaskFailed(WindlassError):
    """The task failed for good; the message carries the error of its last try."""

    def __init__(self, task_id: int, error: str) -> None:
        super().__init__(f"task {task_id} failed: {error}")
        self.task_id = task_id
        self.error = error


class TaskCancelled(WindlassError):
    """The task was cancelled."""

    def __init__(self, task_id: int, reason: str) -> None:
        super().__init__(f"task {task_id} was cancelled" + (f": {reason}" if reason else ""))
        self.task_id = task_id
        self.reason = reason


class ResultTimeout(WindlassError, TimeoutError):
    """The task did not end within the time the caller was ready to wait."""


class NoContext(WindlassError):
    """`context()` was called outside a running handler."""


class SchemaMismatch(WindlassError):
    """The tables in the database are not the ones this Windlass works with."""


class DatabaseUnavailable(WindlassError):
    """The database could not be used, after all retries; `missing` names shards."""

    def __init__(self, message: str, *, missing: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.missing = missing


class Blocked(DatabaseUnavailable):
    """Somebody else's transaction holds rows that are needed, for too long; nothing was changed."""


class MembersUnavailable(WindlassError):
    """Whoever should know which workers are alive does not answer."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"members {url!r} did not answer: {why}")
        self.url = url
        self.why = why


class Signal(WindlassError):
    """What a handler says about its own task by raising it; not an error."""


class Retry(Signal):
    """Try this task again, after `after` or else the kind's back-off. It uses up one retry."""

    def __init__(self, reason: str = "", *, after: str | timedelta | None = None) -> None:
        super().__init__(reason or "the handler asked for another try")
        self.after = after


class Cancel(Signal):
    """End this task as cancelled, whatever retries are left."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "cancelled by its handler")


class Snooze(Signal):
    """Put this task off. It costs neither an attempt nor a retry."""

    def __init__(self, after: str | timedelta) -> None:
        super().__init__(f"snoozed for {after}")
        self.after = after
