"""`app.control`: a run for a block to hold, and the plain calls."""

from __future__ import annotations

import threading
from typing import ParamSpec

from windlass.control.engine.hold import HeldRun
from windlass.control.engine.register import Register
from windlass.control.engine.run import ControlRun, error_text
from windlass.control.model import control as rules
from windlass.control.model.argument import (
    ControlKey,
    Expiry,
    check_data,
    check_key,
    check_once,
    check_step_data,
    parse_expires,
)
from windlass.control.model.control import DONE, REFUSED, Noted, Reply, Rule, RunView
from windlass.control.model.step import StepName, check_step
from windlass.core.shard.fleet import Fleet
from windlass.errors import BadInput, BadStep
from windlass.value.duration import Duration, parse_duration
from windlass.value.twin import awaited

P = ParamSpec("P")

LEASE = "60s"
# At most this many batches are kept of runs that were started here and ended elsewhere.
MOST_REMEMBERED = 10_000


class Controls:
    """`app.control`: call it for a run to enter, or use the plain calls from anywhere."""

    def __init__(self, fleet: Fleet) -> None:
        self._register = Register(fleet)
        self._batches: dict[ControlKey, int] = {}
        self._lock = threading.Lock()

    def __call__(
        self,
        name: str,
        partition: str = "",
        expires: Expiry | None = None,
        data: object = None,
        *,
        lease: Duration = LEASE,
        once: bool = False,
    ) -> ControlRun:
        """A control run, to enter with `with` or `async with`.

        Without `expires` it is held by a `lease` that is renewed while the block runs. With `once`
        it always raises AlreadyDone once it has succeeded.
        """
        key = check_key(name, partition)
        until, given = parse_expires(expires), check_data(data, key)
        lasting = parse_duration(lease, what="lease")
        held = HeldRun(
            self._register, key, expires=until, lease=lasting, given=given, once=check_once(once)
        )
        return ControlRun(held)

    def start(
        self,
        name: str,
        partition: str = "",
        expires: Expiry | None = None,
        *,
        data: object = None,
        once: bool = False,
    ) -> Reply:
        """Start a run: 0, or 8 if it is running, or 2 if it happens `once` and has succeeded.

        Without `expires` it is held until it is finished, failed or released.
        """
        key = check_key(name, partition)
        until, given = parse_expires(expires), check_data(data, key)
        reply = self._register.start(key, expires=until, data=given, once=check_once(once))
        if reply.code == DONE:
            self._remember(key, reply.data["batch"])
        return reply

    def step(
        self,
        name: str,
        step: StepName,
        partition: str = "",
        *,
        batch: int | None = None,
        data: object = None,
    ) -> Reply:
        """Begin a step, which ends the one before: 0, or 2 if it is done already, or 451.

        `data` is kept with the step, and later calls of it have it in their `data["data"]`. Where
        several threads or processes may start the run, pass the `batch` of yours.
        """
        key = check_key(name, partition)
        asked, given = check_step(step, what=f"control {key}"), check_step_data(data, key, step)
        try:
            batch = self._batch(key, batch)
            return self._register.change(key, batch, rules.step, asked, data=given)
        except BadStep as problem:
            return Reply(REFUSED, str(problem))

    def note(
        self, name: str, data: object, partition: str = "", *, batch: int | None = None
    ) -> Reply:
        """Keep `data` with a running run: 0, or 451.

        Objects are merged, anything else replaces what was there.
        """
        key = check_key(name, partition)
        noted = Noted(check_data(data, key))
        return self._register.change(key, self._batch(key, batch), rules.note, noted)

    def finish(
        self, name: str, partition: str = "", *, batch: int | None = None, data: object = None
    ) -> Reply:
        """End a run as succeeded: 0, or 451."""
        key = check_key(name, partition)
        return self._end(key, batch, rules.finish, Noted(check_data(data, key)))

    def error(
        self,
        name: str,
        error: object = "",
        partition: str = "",
        *,
        batch: int | None = None,
        data: object = None,
    ) -> Reply:
        """End a run as failed: 0, or 451. Its steps are kept for the next try."""
        key = check_key(name, partition)
        noted = Noted(check_data(data, key))
        return self._end(key, batch, rules.fail, noted, error=error_text(error))

    def get(self, name: str, partition: str = "") -> RunView | None:
        """The row of a run, or None if it was never started."""
        return self._register.get(check_key(name, partition))

    astart = awaited(start)
    astep = awaited(step)
    anote = awaited(note)
    afinish = awaited(finish)
    aerror = awaited(error)
    aget = awaited(get)

    def forget(self) -> None:
        """Forget all runs that were started here; for tests."""
        with self._lock:
            self._batches.clear()

    def _batch(self, key: ControlKey, given: int | None) -> int | None:
        """The batch that the caller gave, or that of the run that this app started."""
        if given is None:
            with self._lock:
                return self._batches.get(key)
        if isinstance(given, bool) or not isinstance(given, int):
            raise BadInput(f"control {key}: batch={given!r} is not a number; pass data['batch']")
        return given

    def _remember(self, key: ControlKey, batch: int) -> None:
        with self._lock:
            self._batches.pop(key, None)
            self._batches[key] = batch
            if len(self._batches) > MOST_REMEMBERED:
                del self._batches[next(iter(self._batches))]

    def _end(
        self, key: ControlKey, batch: int | None, rule: Rule[P], *args: P.args, **kwargs: P.kwargs
    ) -> Reply:
        reply = self._register.change(key, self._batch(key, batch), rule, *args, **kwargs)
        # The batch of a run that was taken over stays known: later calls must be refused.
        if reply.code == DONE:
            with self._lock:
                if self._batches.get(key) == reply.data["batch"]:
                    del self._batches[key]
        return reply
