"""Holding a control run: its start, the lease that is renewed meanwhile, and its end."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any

from windlass import telemetry
from windlass.clock import SECOND
from windlass.control.engine.register import Register
from windlass.control.engine.terminate import Terminated
from windlass.control.model.argument import ControlKey, Expires
from windlass.control.model.control import (
    DONE,
    INTERRUPTED,
    REFUSED,
    RUNNING,
    LoopProgress,
    Noted,
    Reply,
)
from windlass.control.model.step import StepName, check_step
from windlass.core.loop import Loop
from windlass.errors import AlreadyRunning, BadInput, RunLost
from windlass.value.outcome import describe
from windlass.value.twin import twin

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


class HeldRun:
    """One try of a control run, from its start to its end."""

    def __init__(
        self,
        register: Register,
        key: ControlKey,
        *,
        expires: Expires | None,
        lease: int,
        data: object,
    ) -> None:
        self._register = register
        self.key = key
        self._expires = expires
        self._lease = lease
        self._given = data
        self._batch: int | None = None
        self._lost: str | None = None
        self._pid = 0
        self.is_entered = False
        self.renewal: LeaseRenewal | None = None
        self.tries = 0
        self.data: Any = None
        self.progress: LoopProgress | None = None
        # Why it is recorded as failed, although its block does not raise.
        self.failing: str | None = None

    @property
    def batch(self) -> int:
        if self._batch is None:
            raise BadInput(f"control {self.key} is not running; enter it with `with` first")
        return self._batch

    @property
    def current_batch(self) -> int:
        """The batch, for what is done inside the block."""
        if self._batch is not None and not self.is_entered:
            raise BadInput(f"control {self.key}: its block has ended; enter it again")
        return self.batch

    @property
    def is_of_parent(self) -> bool:
        """Whether this process is a forked child: the run belongs to its parent."""
        return os.getpid() != self._pid

    def begin(self) -> None:
        """Start it; AlreadyRunning if it is held."""
        if self.is_entered:
            raise BadInput(f"control {self.key} is entered already; make another run for it")
        expires = Expires(after=self._lease) if self._expires is None else self._expires
        reply = self._register.start(self.key, expires=expires, data=self._given)
        facts = reply.data
        if reply.code == RUNNING:
            since = None if facts["since"] is None else datetime.fromisoformat(facts["since"])
            raise AlreadyRunning(*self.key, who=facts["who"], since=since, step=facts["step"])
        self._batch, self.tries, self.data = facts["batch"], facts["tries"], facts["data"]
        self._lost = self.failing = self.progress = None
        self.is_entered, self._pid = True, os.getpid()
        if self._expires is None:
            every = self._lease / SECOND / RENEWALS_PER_LEASE
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
        batch = self.current_batch
        reply = self._register.note(self.key, Noted(), batch=batch, lease=self._lease)
        if reply.code == REFUSED:
            self._lose(reply.msg)
        return reply.code == DONE

    def step(self, step: StepName, *, called: bool = False) -> Reply:
        """Begin a step, or learn that it is done."""
        asked, batch = check_step(step, what=f"control {self.key}"), self.current_batch
        return self._must(
            self._register.step(self.key, asked, batch=batch, called=called, in_block=True)
        )

    def complete(self, step: StepName, result: object) -> None:
        """Keep the result of the function of a step."""
        batch = self.current_batch
        self._must(self._register.complete(self.key, step, batch=batch, result=result))

    def note(self, noted: Noted) -> Reply:
        """Keep what the run says about itself."""
        return self._must(self._register.note(self.key, noted, batch=self.current_batch))

    def end(self, error: BaseException | None) -> None:
        """Record how the block ended."""
        if self.renewal is not None:
            self.renewal.stop()
            self.renewal.join(JOIN_SECONDS)
        batch, noted = self.current_batch, Noted(progress=self.progress)
        self.is_entered = False
        if error is None or (isinstance(error, SystemExit) and not error.code):
            why = self.failing
            self._must(
                self._register.finish(self.key, noted, batch=batch)
                if why is None
                else self._register.fail(self.key, noted, batch=batch, error=why)
            )
            return
        if self._lost is not None:
            return
        try:
            reply = self._register.fail(self.key, noted, batch=batch, error=_error_text(error))
        except Exception:
            # The error of the block matters more than a failure to record it.
            telemetry.log.exception("control %s: its error could not be recorded", self.key)
            return
        if reply.code == REFUSED:
            self._lose(reply.msg)

    def _must(self, reply: Reply) -> Reply:
        if reply.code == REFUSED:
            self._lose(reply.msg)
            raise RunLost(*self.key, why=reply.msg)
        return reply

    def _lose(self, why: str) -> None:
        if self._lost is None:
            self._lost = why
            telemetry.emit("control.lost", **self.key._asdict(), batch=self._batch, why=why)


def _error_text(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt | Terminated | asyncio.CancelledError):
        return INTERRUPTED
    text, trace = describe(error)
    return f"{text}\n\n{trace}"
