"""Receives the replies of consumers, and gives the outcomes to the kernel."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from windlass import telemetry
from windlass.core.face import FaceLoop, Workplace
from windlass.core.run.ready import Run
from windlass.errors import BrokerUnavailable
from windlass.queue.engine.carrier.outstanding import Carriage
from windlass.queue.engine.carrier.sender import CarrierSender
from windlass.queue.engine.carrier.transport import ArrivedReply
from windlass.queue.model.carrier import NotUnderstood, outcome_of, read_reply
from windlass.value.outcome import MISFIT_DELAY, Outcome, Retried
from windlass.value.report import failed, text_of

WAIT_SECONDS = 0.25
PAUSE_SECONDS = 1.0
# The clocks of a worker and a consumer may differ by this.
CLOCKS_DIFFER_SECONDS = 1.0


class Receiver(FaceLoop):
    """Receives the replies to what one sender has sent."""

    name = "replies"

    def __init__(self, sender: CarrierSender, workplace: Workplace) -> None:
        super().__init__()
        self.is_idle = True
        # Replies that nobody waited for: repeated, too late, or of another attempt.
        self.stale = 0
        self._sender = sender
        self._in_flight = workplace.in_flight

    def tick(self) -> float:
        if self._sender.is_stopping:
            self._sender.give_back()
        try:
            replies = self._sender.transport.replies(wait_seconds=WAIT_SECONDS)
            if replies:
                self.receive(replies)
                # The outcome may get lost with this process; then so does the claim.
                self._sender.transport.received()
        except BrokerUnavailable:
            # The sender tells people.
            return PAUSE_SECONDS
        return 0.0

    def receive(self, replies: Sequence[ArrivedReply]) -> None:
        """End the runs that these replies are about."""
        now = time.monotonic()
        found = [self._read(reply, now) for reply in replies]
        ended = [each for each in found if each is not None]
        if ended:
            self._in_flight.end_all(ended)
            self._sender.wake()

    def _read(self, arrived: ArrivedReply, now: float) -> tuple[Run, Outcome] | None:
        try:
            reply = read_reply(arrived.body)
        except NotUnderstood as problem:
            telemetry.emit("carrier.misread", queue=self._sender.via.name, error=str(problem))
            waits = self._sender.outstanding.answered(problem.id or arrived.about, now=now)
            return None if waits is None else (waits.run, _misread(waits, problem))
        waits = self._sender.outstanding.answered(reply.id, now=now)
        if waits is None:
            self.stale += 1
            telemetry.emit("carrier.stale", queue=self._sender.via.name, reply=reply.id)
            return None
        run = waits.run
        if reply.outcome == "expired":
            early = waits.start_by - now
            if early > CLOCKS_DIFFER_SECONDS:
                return run, self._clock_is_ahead(early)
        else:
            self._sender.window.replied()
        terms, tries = run.kind.terms, run.task.tries
        return run, outcome_of(reply, terms, tries=tries, random=random.random())

    def _clock_is_ahead(self, seconds: float) -> Outcome:
        """A consumer takes fresh messages for old ones: another one may run them."""
        text = (
            f"a consumer of queue {self._sender.via.name!r} said {seconds:.0f} s too early that "
            "the message had come too late; set the clock of that machine"
        )
        telemetry.emit("carrier.misread", queue=self._sender.via.name, error=text)
        return Retried(MISFIT_DELAY, text, text, is_answer=True)

    def release(self) -> None:
        self.join(timeout=5.0)
        self._sender.transport.close()


def _misread(waits: Carriage, problem: NotUnderstood) -> Outcome:
    text, run = text_of(problem), waits.run
    policy = run.kind.terms.retry
    return failed(text, text, policy, tries=run.task.tries, as_error=problem)
