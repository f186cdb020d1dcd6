"""Holding a control run: its start, the lease that is renewed meanwhile, and its end."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ParamSpec

from windlass import telemetry
from windlass.clock import SECOND
from windlass.control.engine.register import Register
from windlass.control.engine.terminate import Terminated
from windlass.control.model import control as rules
from windlass.control.model.argument import ControlKey, Expires
from windlass.control.model.control import LoopProgress, Noted, Reply, Rule
from windlass.core.loop import Loop
from windlass.errors import AlreadyDone, AlreadyRunning, BadInput, RunLost
from windlass.value.outcome import describe
from windlass.value.twin import twin

P = ParamSpec("P")

RENEWALS_PER_LEASE = 4
JOIN_SECONDS = 10.0


class LeaseRenewal(Loop):
    """The heartbeat of a control run: renews its lease while its block is running."""

    name = "control"

    def __init__(self, renew: Callable[[], bool], *, every: float) -> None:
        super().__init__()
        self._renew = renew
        self._every = every
        self._is_first = True

    def tick(self) -> float:
        # The start has just written the lease.
        if self._is_first:
            self._is_first = False
        elif not self._renew():
            self.stop()
        return self._every


@dataclass(eq=False)
class HeldRun:
    """One try of a control run, from its start to its end."""

    register: Register
    key: ControlKey
    expires: Expires | None
    lease: int
    given: object
    once: bool = False
    # The data that is kept with the run.
    data: Any = field(init=False, default=None)
    is_entered: bool = field(init=False, default=False)
    renewal: LeaseRenewal | None = field(init=False, default=None)
    tries: int = field(init=False, default=0)
    progress: LoopProgress | None = field(init=False, default=None)
    # Why it is recorded as failed, although its block does not raise.
    failing: str | None = field(init=False, default=None)
    _batch: int | None = field(init=False, default=None)
    _is_lost: bool = field(init=False, default=False)
    _pid: int = field(init=False, default=0)

    @property
    def batch(self) -> int:
        if self._batch is None:
            raise BadInput(f"control {self.key} is not running; enter it with `with` first")
        return self._batch

    def check_entered(self) -> None:
        """BadInput outside of the block."""
        if self.batch and not self.is_entered:
            raise BadInput(f"control {self.key}: its block has ended; enter it again")

    @property
    def is_of_parent(self) -> bool:
        """Whether this process is a forked child: the run belongs to its parent."""
        return os.getpid() != self._pid

    def begin(self) -> None:
        """Start it; AlreadyRunning if it is held, AlreadyDone if it happens once and did."""
        if self.is_entered:
            raise BadInput(f"control {self.key} is entered already; make another run for it")
        expires = Expires(after=self.lease) if self.expires is None else self.expires
        reply = self.register.start(self.key, expires=expires, data=self.given, once=self.once)
        facts = reply.data
        if reply.code == rules.RUNNING:
            since = None if facts["since"] is None else datetime.fromisoformat(facts["since"])
            raise AlreadyRunning(*self.key, who=facts["who"], since=since, step=facts["step"])
        if reply.code == rules.SKIP:
            at = None if facts["at"] is None else datetime.fromisoformat(facts["at"])
            raise AlreadyDone(*self.key, who=facts["who"], at=at)
        self._batch, self.tries, self.data = facts["batch"], facts["tries"], facts["data"]
        self.failing = self.progress = None
        self.is_entered, self._is_lost, self._pid = True, False, os.getpid()
        if self.expires is None:
            every = self.lease / SECOND / RENEWALS_PER_LEASE
            self.renewal = LeaseRenewal(self.renew, every=every)
            self.renewal.start()

    async def abegin(self) -> None:
        """`begin`, awaited. A caller that is cancelled meanwhile does not hold the run."""
        lock, has_begun, is_given_up = threading.Lock(), False, False

        def begin() -> None:
            nonlocal has_begun
            self.begin()
            with lock:
                has_begun = True
                is_over = is_given_up
            if is_over:
                self.end(asyncio.CancelledError())

        try:
            await twin(begin)
        except asyncio.CancelledError as error:
            with lock:
                is_given_up = True
                is_held = has_begun
            if is_held:
                await asyncio.shield(twin(self.end, error))
            raise

    def renew(self) -> bool:
        """Extend the lease; False if the run is lost."""
        self.check_entered()
        self.register.look_at_the_clock(self.key)
        return self._change(rules.note, Noted(), lease=self.lease).code == rules.DONE

    def change(self, rule: Rule[P], *args: P.args, **kwargs: P.kwargs) -> Reply:
        """Make what a rule decides true, inside the block; RunLost if the run is lost."""
        self.check_entered()
        return self._must(self._change(rule, *args, **kwargs))

    def end(self, error: BaseException | None) -> None:
        """Record how the block ended."""
        if self.renewal is not None:
            self.renewal.stop()
            self.renewal.join(JOIN_SECONDS)
        self.check_entered()
        self.is_entered, noted, why = False, Noted(progress=self.progress), self.failing
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self._must(
                self._change(rules.finish, noted)
                if why is None
                else self._change(rules.fail, noted, error=why)
            )
        elif not self._is_lost:
            try:
                self._change(rules.fail, noted, error=_error_text(error))
            except Exception:
                # The error of the block matters more than a failure to record it.
                telemetry.log.exception("control %s: its error could not be recorded", self.key)

    def _change(self, rule: Rule[P], *args: P.args, **kwargs: P.kwargs) -> Reply:
        reply = self.register.change(self.key, self.batch, rule, *args, **kwargs)
        if reply.code == rules.REFUSED and not self._is_lost:
            self._is_lost = True
            facts = {"batch": self.batch, "why": reply.msg}
            telemetry.emit("control.lost", **self.key._asdict(), **facts)
        return reply

    def _must(self, reply: Reply) -> Reply:
        if reply.code == rules.REFUSED:
            raise RunLost(*self.key, why=reply.msg)
        return reply


def _error_text(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt | Terminated | asyncio.CancelledError):
        return rules.INTERRUPTED
    text, trace = describe(error)
    return f"{text}\n\n{trace}"
