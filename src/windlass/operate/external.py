"""External systems: declare them, be told how their tasks ended, and cancel what they do."""

from __future__ import annotations

import functools
import hmac
import inspect
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
from sqlalchemy import Connection

from windlass import telemetry
from windlass.declare.external import External, submit_of
from windlass.declare.kind import Kind, Options, Registry, make_kind
from windlass.declare.task import Desk, Task, TaskRef
from windlass.engine.current import current
from windlass.engine.external import Told, cancel_quietly, outcome_of, submit, write_ends
from windlass.engine.fleet import Fleet
from windlass.engine.shard import Shard
from windlass.errors import BadInput, ExternalDown, Retry, UnknownHandle
from windlass.model.duration import Duration, parse_duration
from windlass.model.external import ExternalTerms
from windlass.model.retry import MOST_RETRIES, RETRY_ASKED_FOR, Backoff
from windlass.model.status import Status
from windlass.store import external as store
from windlass.store.external import ExternalRow

BREAKER = "5 in a row, 30s"


class Externals:
    """`app.external`: declares external systems, and hears from them."""

    def __init__(self, desk: Desk, fleet: Fleet, registry: Registry) -> None:
        self._desk = desk
        self._fleet = fleet
        self._registry = registry

    def __call__(
        self,
        name: str,
        system: External,
        *,
        every: Duration = "5s",
        timeout: Duration | None = None,
        retries: int = 0,
        backoff: Backoff = "2s",
        batch: int = 500,
        concurrency: int | None = None,
        rate: str | None = None,
        priority: int = 0,
        keep: Duration | None = None,
        keep_failed: Duration | None = None,
        window: str | None = None,
        breaker: str | None = BREAKER,
    ) -> Task[..., Any]:
        """Declare a system that executes tasks elsewhere; what is enqueued of it is submitted.

        It is asked `every` so often how they are going, `batch` at once; after `timeout` a task has
        failed. A task that failed over there, or whose `submit` raised, is submitted up to
        `retries` times again. When the system cannot be reached, nothing fails: it is asked, or
        submitted to, again later.
        """
        terms = ExternalTerms(
            system=system,
            every=parse_duration(every, what=f"external {name!r}: every"),
            timeout=None
            if timeout is None
            else parse_duration(timeout, what=f"external {name!r}: timeout"),
            batch=batch,
        )
        options = Options(
            name=name,
            retries={
                Exception: retries,
                Retry: max(retries, RETRY_ASKED_FOR),
                ExternalDown: MOST_RETRIES,
            },
            backoff=backoff,
            concurrency=concurrency,
            rate=rate,
            priority=priority,
            keep=keep,
            keep_failed=keep_failed,
            window=window,
            breaker=breaker,
            system=terms,
        )
        kind = make_kind(_handler(name, terms), options)
        self._registry.add(kind)
        return Task(self._desk, kind)

    def notify(
        self,
        what: str | int | TaskRef,
        *,
        ok: bool,
        result: object = None,
        reason: str = "",
        kind: str | None = None,
        secret: str | None = None,
    ) -> bool:
        """End the task of a handle, an id or a ref; False if it had ended before.

        With a `secret`, only if it is the one of the task.
        """
        shard, row = self._find(what, kind)
        if secret is not None and not hmac.compare_digest(
            row.secret.encode(), str(secret).encode("utf-8", "replace")
        ):
            raise UnknownHandle(what if isinstance(what, str | int) else what.id)
        told = Told(ok=ok, result=result, reason=str(reason))
        changed = self._tell(shard, row.task.id, told)
        telemetry.emit("external.notified", task=row.task.id, kind=row.task.kind, ok=ok)
        if changed:
            shard.bell.ring_here()
        return changed

    def cancel(self, shard: Shard, ids: Sequence[int]) -> None:
        """Ask the systems to stop tasks that were cancelled."""
        for kind, handle in shard.database.read(lambda connection: store.handles(connection, ids)):
            found = self._registry.kinds.get(kind)
            if found is not None and found.system is not None:
                cancel_quietly(found.system, handle)

    def _find(self, what: str | int | TaskRef, kind: str | None) -> tuple[Shard, ExternalRow]:
        self._fleet.prepare()
        handle = what.id if isinstance(what, TaskRef) else what
        if isinstance(handle, bool) or not isinstance(handle, str | int):
            raise BadInput(f"{what!r} is neither a handle nor a task")
        for shard in self._fleet.shards:
            found = shard.database.read(
                lambda connection: store.find(connection, handle, kind=kind)
            )
            if len(found) > 1:
                raise BadInput(
                    f"several tasks have the handle {handle!r}; say which system by kind=, or "
                    "notify with the task"
                )
            if found:
                return shard, found[0]
        raise UnknownHandle(handle)

    def _tell(self, shard: Shard, number: int, told: Told) -> bool:
        database, now = shard.database, shard.clock.now()

        def work(connection: Connection) -> bool:
            row = store.lock(connection, number)
            if row is None or row.status.is_final:
                return False
            if row.status is not Status.EXTERNAL:
                store.tell(connection, number, msgspec.json.encode(told).decode())
                return True
            kind = self._kind(row)
            outcome = outcome_of(row, told.answer, kind)
            assert outcome is not None
            write_ends(connection, database, kind, {row: outcome}, now=now)
            shard.bell.ring_inside(connection, is_ours=True)
            return True

        return database.write(work)

    def _kind(self, row: ExternalRow) -> Kind:
        return self._registry.get(row.task.kind)


def _handler(name: str, terms: ExternalTerms) -> Callable[..., object]:
    """What a worker calls to hand a task over, with the parameters that `submit` has."""
    call = submit_of(name, terms.system)

    def runs(*args: object, **kwargs: object) -> object:
        return submit(current.get(), terms, call, *args, **kwargs)

    functools.update_wrapper(runs, call)
    cast(Any, runs).__signature__ = inspect.signature(call).replace(
        return_annotation=inspect.Signature.empty
    )
    hints = getattr(call, "__annotations__", {})
    runs.__annotations__ = {key: hint for key, hint in hints.items() if key != "return"}
    return runs
