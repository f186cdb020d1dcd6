"""`app.external`: declares external systems, and receives how their tasks ended."""

from __future__ import annotations

import functools
import hmac
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from windlass import telemetry
from windlass.core.face import Site
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.current import current
from windlass.core.task.declare import Task, TaskApp, TaskRef
from windlass.core.task.downstream import DownstreamOption
from windlass.core.task.kind import Registry, make_kind
from windlass.core.task.option import Options
from windlass.database.connection import Connection
from windlass.database.dialect.base import lock_runs
from windlass.errors import BadDeclaration, BadInput, ExternalFailed, UnknownHandle
from windlass.external import store
from windlass.external.engine.submission import (
    Notification,
    endings_of,
    outcome_of,
    submit,
    write_ends,
)
from windlass.external.model import (
    MOST_BATCH,
    External,
    ExternalTerms,
    Submission,
    is_handle,
    submit_of,
)
from windlass.value.calendar.window import Window
from windlass.value.duration import Duration, parse_duration
from windlass.value.outcome import LONGEST_REMARK, storable
from windlass.value.payload import encode_result
from windlass.value.retry import MOST_RETRIES, Backoff
from windlass.value.status import Status

BREAKER = "5 in a row, 30s"
MOST_NUMBER = 2**63


@dataclass(eq=False)
class Externals:
    """`app.external`."""

    app: TaskApp
    fleet: Fleet
    registry: Registry

    def __call__(
        self,
        name: str,
        system: External,
        *,
        every: Duration = "5s",
        timeout: Duration | None = None,
        call_timeout: Duration = "1m",
        retries: int = 0,
        backoff: Backoff = "2s",
        batch: int = 500,
        concurrency: int | None = None,
        rate: str | None = None,
        priority: int = 0,
        keep: Duration | None = None,
        keep_failed: Duration | None = None,
        window: str | Window | None = None,
        breaker: str | None = BREAKER,
        downstream: DownstreamOption = None,
        total_concurrency: int | None = None,
        group: str | None = None,
    ) -> Task[..., Any]:
        """Declare a system that executes tasks elsewhere; its tasks are submitted to it.

        The system is polled `every` interval, for up to `batch` tasks in one call. A task fails
        after `timeout`. A task that failed there is submitted again up to `retries` times. When the
        system does not answer within `call_timeout`, no task fails: the call is repeated later.
        A worker submits at most `concurrency` tasks at once; how many the system executes at the
        same time is not limited.
        """
        what = f"external {name!r}"
        terms = ExternalTerms(
            system=system,
            every=parse_duration(every, what=f"{what}: every"),
            timeout=None if timeout is None else parse_duration(timeout, what=f"{what}: timeout"),
            call_timeout=parse_duration(call_timeout, what=f"{what}: call_timeout"),
            batch=_checked_batch(batch, what),
        )
        options = Options(
            name=name,
            retries={Exception: MOST_RETRIES, ExternalFailed: retries},
            backoff=backoff,
            timeout=call_timeout,
            concurrency=concurrency,
            rate=rate,
            priority=priority,
            keep=keep,
            keep_failed=keep_failed,
            window=window,
            breaker=breaker,
            downstream=downstream,
            total_concurrency=total_concurrency,
            group=group,
            face="external",
            face_terms=terms,
            hands_over=True,
        )
        return Task(self.app, self.registry.add(make_kind(_handler(name, terms), options)))

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
        """End the task of a handle, an id or a ref; False if that changed nothing.

        Nothing changes if the task had ended, or was submitted again. With a `secret`, only the
        submission with this secret is ended.
        """
        told = _told(ok, result, reason)
        shard, found = self._find(what, kind, secret)
        changed = not found.is_past and self._tell(shard, found, told)
        telemetry.emit("external.notified", task=found.task_id, kind=found.kind, ok=ok)
        if changed:
            shard.bell.ring_here()
        return changed

    def _find(
        self, what: str | int | TaskRef, kind: str | None, secret: str | None
    ) -> tuple[Shard, Submission]:
        self.fleet.prepare()
        given = what.id if isinstance(what, TaskRef) else what
        if isinstance(given, bool) or not isinstance(given, str | int):
            raise BadInput(f"{what!r} is neither a handle nor a task")
        is_possible = is_handle(given) if isinstance(given, str) else 0 < given < MOST_NUMBER
        for shard in self.fleet.shards if is_possible else ():
            found = shard.database.read(lambda connection: store.find(connection, given, kind=kind))
            if secret is not None:
                found = [each for each in found if _is_same(each.secret, secret)]
            if len({each.task_id for each in found if not each.is_past}) > 1:
                raise BadInput(
                    f"several tasks have the handle {given!r}; say which system by kind=, or "
                    "notify with the task"
                )
            if found:
                return shard, found[0]
        raise UnknownHandle(given)

    def _tell(self, shard: Shard, found: Submission, told: Notification) -> bool:
        number, site = found.task_id, Site.at(shard, self.registry)

        def work(connection: Connection) -> bool | None:
            seen = store.state_of(connection, number)
            if seen is None or seen[0].is_final:
                return False
            status, run = seen
            # Only an external row: a worker that finishes this row may wait for the flow run.
            is_there = status is Status.EXTERNAL
            before = lock_runs(connection, [run]) if is_there and run is not None else {}
            row = next(iter(store.lock(connection, [number])), None)
            if row is None or row.status.is_final or row.submission.number != found.number:
                return False
            if row.status is not Status.EXTERNAL:
                store.tell(connection, number, msgspec.json.encode(told).decode())
                return True
            if not is_there:
                return None
            kind = self.registry.get(row.task.kind)
            outcome = outcome_of(row, told.answer, kind)
            assert outcome is not None
            write_ends(connection, kind, {row: outcome}, now=shard.clock.now())
            for ending in endings_of(site, {row: outcome}, worker=row.task.worker):
                ending.write(connection, {number}, before)
            shard.bell.ring_inside(connection, is_ours=True)
            return True

        # The handle may have been written while this waited for the lock; that happens once.
        changed = shard.database.write(work)
        return bool(shard.database.write(work) if changed is None else changed)


def _told(ok: object, result: object, reason: object) -> Notification:
    if not isinstance(ok, bool):
        raise BadInput(f"ok={ok!r} is not a bool; give True if it succeeded, False if it failed")
    try:
        encode_result(result)
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise BadInput(f"the result cannot be kept: {problem}") from problem
    return Notification(ok=ok, result=result, reason=storable(str(reason))[:LONGEST_REMARK])


def bearer_secret(authorization: str) -> str | None:
    """The secret in an Authorization header; None if it has none."""
    scheme, _, secret = authorization.strip().partition(" ")
    return secret.strip() or None if scheme.lower() == "bearer" else None


def _is_same(secret: str, given: str) -> bool:
    return hmac.compare_digest(secret.encode(), str(given).encode("utf-8", "replace"))


def _handler(name: str, terms: ExternalTerms) -> Callable[..., object]:
    """What a worker calls to submit a task; it has the parameters of `submit`."""
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


def _checked_batch(batch: object, what: str) -> int:
    if isinstance(batch, bool) or not isinstance(batch, int) or not 1 <= batch <= MOST_BATCH:
        raise BadDeclaration(f"{what}: batch={batch!r} is not a number from 1 to {MOST_BATCH:,}")
    return batch
