"""Every error that Windlass raises, and the four signals a handler may raise.

WindlassError
    BadInput (also a ValueError)        an argument cannot be used; nothing was changed
        BadDeclaration                  an option of a kind, or its function, cannot work
            DuplicateKind
        BadDuration, BadSchedule, BadRate, BadWindow, BadBreaker
        BadArgument                     an argument does not fit the handler's annotation
            NotSerializable, PayloadTooLarge
        BadKey, PastTime, BadConnection, BadDatabase
        BadSource                       a table cannot be mirrored or followed
        BadStep                         a step of a control run is not valid, or out of order
        BadMembers                      a URL of etcd or ZooKeeper cannot be used
        BadQueue                        a queue's URL, name or options cannot be used
        BadFlow                         a graph cannot run, or a node cannot be changed
        InvalidQuantity                 a quantity that the ledger cannot count
    UnknownKind, DuplicateKey, TaskNotFound, ItemNotFound
    UnknownFlow, UnknownNode, UnknownHandle, UnknownAlert
    Unknown                             nothing has that name
    NotPossible                         the current state does not allow this operation
        Undelivered                     a channel did not take a message
    ExternalFailed                      raised by submit: the external system refuses the task
    TaskFailed, TaskCancelled, ResultTimeout
    HandlerDied                         the process of an isolated handler ended before it did
    AlreadyRunning                      the control run is running already
    AlreadyDone                         the control run happens once, and has succeeded
    RunLost                             the control run was taken over, or released
    IdConflict                          an id of the ledger was used for something else
    Refused                             the ledger refused a movement, and remembers that
        OutOfStock, UnknownSku, UnknownDeduction, OverReturn, NotHeld, BalanceLimit
    HeldBack                            a switch or a breaker stops the kind
    NoContext                           context() was called outside a handler
    OutsideTest                         a test would use a real database or broker
    SchemaMismatch                      the tables are missing, older or newer than this Windlass
    DatabaseUnavailable                 still failing after all retries
        Blocked                         another transaction locks the rows for too long
        NotDecided                      whether a hot deduction was made is unknown: ask again
    CacheUnavailable                    the cache of a hot lane does not answer
    MembersUnavailable                  etcd or ZooKeeper did not answer
    BrokerUnavailable                   a message broker does not answer
        BrokerRefused                   it answers, and refuses: credentials, rights, another queue
    Signal                              not an error: a handler raises it about its own task
        Retry, Cancel, Snooze, Overloaded
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar, cast, dataclass_transform


class WindlassError(Exception):
    """The parent of every error that Windlass raises."""


@dataclass_transform(eq_default=False)
class _Stated(WindlassError):
    """An error that is stated by its fields: `text` is a template for them."""

    text: ClassVar[str]

    def __init_subclass__(cls) -> None:
        # A subclass of a user's is an ordinary class.
        if cls.__module__ == __name__:
            dataclass(eq=False, repr=False)(cls)

    def __post_init__(self) -> None:
        super().__init__(self._say())

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), **self.facts), (), self.__dict__

    @property
    def facts(self) -> dict[str, Any]:
        """Its fields and their values."""
        return {each.name: getattr(self, each.name) for each in fields(cast(Any, self))}

    def _say(self) -> str:
        return self.text.format(**self.facts)


class BadInput(WindlassError, ValueError):
    """An argument cannot be used; nothing was changed."""


class BadDeclaration(BadInput):
    """A kind cannot work as it is declared."""


class DuplicateKind(_Stated, BadDeclaration):
    """Two functions have the same kind name."""

    kind: str
    text = "kind {kind!r} is declared twice; give one of the two functions another name="


class BadDuration(BadInput):
    """A duration is not valid."""


class BadSchedule(BadInput):
    """A cron expression or a time zone is not valid."""


class BadRate(BadInput):
    """A rate is not valid."""


class BadWindow(BadInput):
    """A time-of-day window is not valid."""


class BadBreaker(BadInput):
    """A circuit breaker is not valid."""


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
    """A task key is empty, too long, or not text."""


class PastTime(BadInput):
    """The start time of a task has passed."""


class BadConnection(BadInput):
    """`conn=` is not a connection that Windlass can join."""


class BadDatabase(BadInput):
    """A database URL cannot be used."""


class BadSource(BadInput):
    """A table cannot be mirrored or followed."""


class BadStep(BadInput):
    """A step is neither a positive number nor a name, or it is out of order."""


class BadMembers(BadInput):
    """A URL of etcd or ZooKeeper cannot be used."""


class BadQueue(BadInput):
    """A queue's URL, name or options cannot be used."""


class BadFlow(BadInput):
    """A graph of nodes cannot run, or does not allow a change."""


class UnknownFlow(WindlassError):
    """No flow or template has that name, or no flow run has that id."""


class UnknownNode(_Stated):
    """A flow run has no node of that name."""

    run: int
    node: str
    text = "run {run} has no node {node!r}; nodes() lists its nodes"


class UnknownHandle(_Stated):
    """No external task has that handle."""

    handle: object
    text = (
        "no external task has the handle {handle!r}; notify with the handle that submit "
        "returned, or with the task"
    )


class UnknownAlert(WindlassError):
    """There is no such alert, or it was pruned."""


class Unknown(WindlassError):
    """Nothing has that name."""


class NotPossible(WindlassError):
    """The current state does not allow this operation."""


class Undelivered(NotPossible):
    """A channel did not take a message. The text has no secrets."""


class ExternalFailed(WindlassError):
    """A task failed in the external system, or the system refuses it.

    Raise it in `submit` if submitting again would not help; it counts against `retries`. Any other
    error means that the system is away, and the task is submitted again later.
    """


class InvalidQuantity(_Stated, BadInput):
    """A quantity is not a whole number, or out of range."""

    sku: str
    quantity: object
    why: str
    text = "sku {sku!r}: quantity {quantity!r} {why}"


class UnknownKind(WindlassError):
    """No kind of that name is declared in this app."""

    def __init__(self, kind: str, declared: list[str] | None = None) -> None:
        known = ", ".join(sorted(declared or [])) or "none"
        super().__init__(f"kind {kind!r} is not declared in this app; declared: {known}")
        self.kind = kind


class DuplicateKey(_Stated):
    """A task with that key exists, and the caller uses `on_conflict="raise"`."""

    kind: str
    key: str
    _: KW_ONLY
    task_id: int
    status: str
    text = (
        "kind {kind!r} already has a {status} task with key {key!r} (task {task_id}); "
        'use on_conflict="skip" to get that task'
    )


class TaskNotFound(_Stated):
    """No task has that id: it was never committed, or it ended and was not kept."""

    task_id: int
    text = "task {task_id} not found: it was never committed, or it ended and was not kept"


class ItemNotFound(WindlassError):
    """A rolling kind has no item with that code, or a sweep's source no row with that key."""

    def __init__(self, kind: str, code: str, *, of: str = "rolling") -> None:
        hint = "add it first" if of == "rolling" else "check the key"
        super().__init__(f"{of} {kind!r} has no item {code!r}; {hint}")
        self.kind = kind
        self.code = code


class HeldBack(_Stated):
    """A switch or a breaker stops the kind, and waiting would not help."""

    kind: str
    why: str
    text = "kind {kind!r} does not run now: {why}"


class AlreadyRunning(_Stated):
    """The control run is running, and has neither ended nor expired."""

    name: str
    partition: str = ""
    _: KW_ONLY
    who: str | None = None
    since: datetime | None = None
    step: int | str | None = None

    def _say(self) -> str:
        began = "" if self.since is None else f" since {self.since.isoformat(timespec='seconds')}"
        at = "" if self.step is None else f", at step {self.step!r}"
        run = _run(self.name, self.partition)
        return f"{run}: {self.who} has been running it{began}{at}"


class AlreadyDone(_Stated):
    """The control run happens once, and has succeeded."""

    name: str
    partition: str = ""
    _: KW_ONLY
    who: str | None = None
    at: datetime | None = None

    def _say(self) -> str:
        at = "" if self.at is None else f" at {self.at.isoformat(timespec='seconds')}"
        return f"{_run(self.name, self.partition)}: it happens once, and has succeeded{at}"


class RunLost(_Stated):
    """The control run was taken over or released; nothing more is recorded for this holder."""

    name: str
    partition: str = ""
    _: KW_ONLY
    why: str

    def _say(self) -> str:
        return f"{_run(self.name, self.partition)}: {self.why}"


class IdConflict(_Stated):
    """The id was used before for something else; the first result stays."""

    id: str
    difference: str
    text = "id {id!r} was used before for something else ({difference}); use a new id"


class Refused(WindlassError):
    """The ledger refused a movement. A repeat of this id is refused, too; retry with a new id."""

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self._facts = facts

    @property
    def facts(self) -> dict[str, Any]:
        """What it is about."""
        return self._facts


class OutOfStock(_Stated, Refused):
    """Too little stock is available; nothing was deducted, not even the other lines."""

    sku: str
    wanted: int
    available: int
    text = "sku {sku!r}: {wanted} wanted, {available} available; nothing was changed"


class UnknownSku(_Stated, Refused):
    """The ledger has never received this SKU."""

    sku: str
    text = "sku {sku!r} is unknown; restock it first"


class UnknownDeduction(_Stated, Refused):
    """Nothing was deducted under this id."""

    id: str
    text = "nothing was deducted under id {id!r}"


class OverReturn(_Stated, Refused):
    """More was to be given back than is left of the deduction; nothing was given back."""

    sku: str
    wanted: int
    returnable: int
    text = (
        "sku {sku!r}: {wanted} to give back, {returnable} left of what was deducted; "
        "nothing was changed"
    )


class BalanceLimit(_Stated, Refused):
    """A sum of the ledger would become larger than it may be; nothing was changed."""

    sku: str
    wanted: int
    room: int
    text = (
        "sku {sku!r}: {wanted} more is too much, there is room for {room}; all that ever came in "
        "and all that ever went out are each at most 10^18; go on under a new sku"
    )


class NotHeld(_Stated, Refused):
    """There is no hold to confirm: it lapsed, was voided, or was refused."""

    id: str
    status: str
    text = "deduction {id!r} is {status} and cannot be confirmed"


class TaskFailed(_Stated):
    """The task failed and has no retries left; the message has the last error."""

    task_id: int
    error: str
    text = "task {task_id} failed: {error}"


class TaskCancelled(WindlassError):
    """The task was cancelled."""

    def __init__(self, task_id: int, reason: str) -> None:
        super().__init__(f"task {task_id} was cancelled" + (f": {reason}" if reason else ""))
        self.task_id = task_id
        self.reason = reason


class ResultTimeout(WindlassError, TimeoutError):
    """The task did not end within the timeout."""


class HandlerDied(_Stated):
    """The process of an isolated handler ended before the handler did; the worker goes on.

    `signal` is the name of the signal that ended it, or `code` its exit code. `stderr` has the
    last lines that it wrote on its standard error.
    """

    _: KW_ONLY
    signal: str | None
    code: int | None
    stderr: str

    def _say(self) -> str:
        said = f"\nthe last lines of its standard error:\n{self.stderr}" if self.stderr else ""
        return f"the process of the handler {self.how}{said}"

    @property
    def how(self) -> str:
        """How it ended, in words."""
        if self.signal == "SIGKILL":
            return "was ended by SIGKILL; the system may have run out of memory"
        if self.signal is not None:
            return f"was ended by {self.signal}"
        return f"ended with exit code {self.code}"


class NoContext(WindlassError):
    """`context()` was called outside a running handler."""


class OutsideTest(_Stated, WindlassError):
    """A test would use a database or a broker that was not lent to it; nothing was done."""

    place: str
    text = (
        "a test with windlass_app would use {place}, which may have real data. If an App is on it, "
        "let windlass_app_source name that App: a list may name several. If it is conn=, bind your "
        "session to windlass_app.database.engine. If the test may use it, let the fixture "
        "windlass_outside return its URL"
    )


class SchemaMismatch(WindlassError):
    """The tables in the database do not fit this version of Windlass."""


class DatabaseUnavailable(WindlassError):
    """The database did not answer after all retries; `missing` names the shards."""

    def __init__(self, message: str, *, missing: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.missing = missing


class Blocked(DatabaseUnavailable):
    """Another transaction locks the rows for too long; nothing was changed."""


class NotDecided(DatabaseUnavailable):
    """Whether this deduction was made is not known yet. Ask again with the same id."""

    def __init__(self, id: str, why: str) -> None:
        super().__init__(f"deduction {id!r}: unknown, ask again with the same id; {why}")
        self.id = id
        self.why = why

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.id, self.why), self.__dict__


class CacheUnavailable(_Stated):
    """The cache of a hot lane does not answer, or the connection was lost."""

    cache: str
    why: str
    text = "the cache at {cache} did not answer: {why}"


class MembersUnavailable(_Stated):
    """etcd or ZooKeeper does not answer."""

    url: str
    why: str
    text = "members {url!r} did not answer: {why}"


class BrokerUnavailable(_Stated):
    """A message broker does not answer, or the connection was lost. The text has no secrets."""

    broker: str
    why: str
    text = "the broker at {broker} did not answer: {why}"


class BrokerRefused(BrokerUnavailable):
    """A message broker answers, and refuses what it is asked for. The text has no secrets."""

    text = "the broker at {broker} refused: {why}"


class Signal(WindlassError):
    """A handler raises it about its own task; not an error."""


class Retry(Signal):
    """Retry this task after `after`, or after the kind's back-off. It uses one retry."""

    def __init__(self, reason: str = "", *, after: str | timedelta | None = None) -> None:
        super().__init__(reason or "the handler asked for another try")
        self.after = after


class Cancel(Signal):
    """Cancel this task, even if it has retries left."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "cancelled by its handler")


class Snooze(Signal):
    """Run this task later. It uses neither an attempt nor a retry."""

    def __init__(self, after: str | timedelta) -> None:
        super().__init__(f"snoozed for {after}")
        self.after = after


class Overloaded(Signal):
    """What the handler calls can bear no more now. It uses neither an attempt nor a retry.

    The task runs again after `retry_after`, or after about a second.
    """

    def __init__(self, reason: str = "", *, retry_after: str | timedelta | None = None) -> None:
        super().__init__(reason or "what the handler calls is overloaded")
        self.retry_after = retry_after


def _run(name: str, partition: str) -> str:
    return f"control {name!r} ({partition!r})" if partition else f"control {name!r}"
