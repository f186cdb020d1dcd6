"""The sender of one queue in one worker: carries the runs of its kinds to consumers.

To the kernel it is a runner, like the coroutines and threads of the worker: it takes runs that may
start, and says how they ended. All else is as for other runs. A rate, a limit or a downstream
decides when a run may start; a run that takes long gets a written claim and a renewed lease; the
outcome is written by the group commit, behind the fence. So nothing here is written down, and when
the worker dies, its successor fetches the rows and sends them again.

Who may say how a run ended? Each sending has an id that is never used again, and waits in memory
for one reply. A second reply, a reply after the deadline, and a reply for a worker that has left
find nobody who waits, and change nothing.

When is a message lost? When its deadline has passed, and it is not in the queue any more. Consumers
begin nothing that may end after its deadline, so it is not in their hands either. It may be in the
queue if messages wait there and none that was sent later has a reply. Then nobody has taken it, the
run keeps waiting, and no attempt is counted. The same holds while the broker is away, and for some
seconds after it: consumers that could not reply do so now.

Workers that share a queue see each other's messages wait. So a message may be lost, and its run
seem to wait among those of others. After an hour it is sent again, whatever waits.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count

import msgspec

from windlass import telemetry
from windlass.clock import SECOND
from windlass.core.alert.model import Trouble
from windlass.core.alert.store import keep_alert, resolve
from windlass.core.face import FaceLoop, Workplace
from windlass.core.run.ready import ReadyQueue, Run, State, failure
from windlass.core.task.kind import Kind
from windlass.core.task.option import Via
from windlass.database.connection import Connection
from windlass.errors import BrokerUnavailable
from windlass.queue.engine.carrier.outstanding import Carriage, Outstanding
from windlass.queue.engine.carrier.transport import Transport
from windlass.queue.engine.carrier.window import CarryWindow
from windlass.queue.engine.contact import Contact
from windlass.queue.model.carrier import (
    DEFAULT_TIMEOUT,
    LONGEST_BUFFERED,
    PROTOCOL,
    WAIT,
    Parcel,
    encode,
    encode_arguments,
)
from windlass.queue.model.message import Outgoing
from windlass.value.cron import read_turn
from windlass.value.outcome import Outcome, Snoozed
from windlass.value.payload import trace_of, without_trace

MEASURE_SECONDS = 0.25
IDLE_SECONDS = 5.0
# A queue that is full is tried again after this.
PAUSE_SECONDS = 0.5
# After so long without any reply, people should know.
SILENT_SECONDS = 30.0
# How soon a stopping worker stops to wait for consumers that answer nothing.
STOP_WAITING_SECONDS = 2.0
# So long a message may wait in the queue.
LONGEST_IN_QUEUE_SECONDS = 3_600.0
AGAIN = Snoozed(0)


class CarrierSender(FaceLoop):
    """Sends runs to the consumers of one queue, or of another carrier."""

    name = "carrier"
    begins_runs = True

    def __init__(
        self, via: Via, kinds: Sequence[Kind], transport: Transport, workplace: Workplace
    ) -> None:
        super().__init__()
        self.via = via
        self.kinds = kinds
        self.transport = transport
        self.ready = ReadyQueue(self.wake)
        self.outstanding = Outstanding()
        self.window = CarryWindow()
        self.is_idle = True
        # How many messages wait in the queue, of all workers.
        self.waiting = 0
        self._site = workplace.site
        self._in_flight = workplace.in_flight
        self._contact = Contact(workplace.site, via)
        # Why the broker does not take messages, although it answers.
        self._refusal: str | None = None
        self._places = count()
        self._unsent: list[Carriage] = []
        self._measured_at = self._try_at = 0.0
        self._silent_since: float | None = None
        self._has_heard = False
        self._alerts: dict[str, str] = {}
        for kind in kinds:
            workplace.in_flight.carry(kind.name, self, window=self.window.size)

    def tick(self) -> float:
        if not self._seconds_to_wait:
            if not self._unsent:
                self._take()
            try:
                self._send()
                self._measure()
            except BrokerUnavailable as problem:
                self._contact.failed(problem)
        self._end_overdue()
        self._tell()
        if self._unsent:
            return self._seconds_to_wait
        return MEASURE_SECONDS if len(self.outstanding) else IDLE_SECONDS

    @property
    def is_stopping(self) -> bool:
        return self._stopping

    @property
    def away(self) -> str | None:
        """Why nothing can be sent; None if it can."""
        problem = self._contact.problem
        return self._refusal if problem is None else str(problem)

    @property
    def _seconds_to_wait(self) -> float:
        refused = self._try_at - time.monotonic()
        return max(0.0, refused, self._contact.seconds_to_wait)

    @property
    def is_silent(self) -> bool:
        """Whether everything that is outstanding waits in the queue: nobody takes it."""
        return 0 < len(self.outstanding) <= self.waiting

    def give_back(self) -> None:
        """The worker stops: wait no longer for what no consumer has, and count no attempt."""
        quiet = time.monotonic() - self.outstanding.answered_at > STOP_WAITING_SECONDS
        given = [
            each
            for each in self.outstanding.all
            if not each.is_sent or (quiet and self.is_silent) or self.away is not None
        ]
        self.outstanding.forget([each.run for each in given])
        self._in_flight.end_all([(each.run, AGAIN) for each in given])

    def _take(self) -> None:
        """Start what may start, as far as the window allows."""
        room = self.window.size - len(self.outstanding)
        now = time.monotonic()
        for run in self._in_flight.start(self.ready, max(0, room)):
            run.runner = self.outstanding
            try:
                sending = self._pack(run, now)
            except Exception as problem:
                self._in_flight.end(run, failure(run, problem))
                continue
            self.outstanding.add(sending)
            self._unsent.append(sending)

    def _pack(self, run: Run, now: float) -> Carriage:
        if run.refusal is not None:
            raise run.refusal
        task, place = run.task, next(self._places)
        timeout = run.kind.timeout or DEFAULT_TIMEOUT
        patience = WAIT + min(timeout, LONGEST_BUFFERED) + timeout
        if run.kind.many is not None:
            # A consumer may let it wait for company.
            patience += run.kind.many.wait
        turn = read_turn(task.payload) if run.turns else None
        parcel = Parcel(
            windlass=PROTOCOL,
            id=f"{task.id}-{task.started_at}-{place}",
            kind=run.kind.name,
            arguments=msgspec.Raw(arguments_of(run)),
            reply_to=self.transport.reply_to,
            task=task.id,
            attempt=task.attempt,
            tries=task.tries,
            fence=task.started_at,
            due_at=(turn or task.due_at) / SECOND,
            timeout=timeout / SECOND,
            deadline=(self._site.clock.now() + patience) / SECOND,
            key=run.key,
            trace=trace_of(task.payload),
        )
        return Carriage(
            id=parcel.id,
            run=run,
            body=encode(parcel),
            place=place,
            patience=patience / SECOND,
            began=now,
            start_by=now + (patience - timeout) / SECOND,
        )

    def _send(self) -> None:
        self._unsent = [each for each in self._unsent if each.run.state is State.RUNNING]
        if not self._unsent:
            return
        reply_to = self.transport.reply_to
        sent = self.transport.submit(
            [
                Outgoing(each.id, each.body, reply_to=reply_to, correlation_id=each.id)
                for each in self._unsent
            ]
        )
        now = time.monotonic()
        left = []
        for place, each in enumerate(self._unsent):
            if place in sent.confirmed:
                each.deadline = now + each.patience
            else:
                left.append(each)
        self._unsent = left
        self._refusal = None
        if left:
            self._refusal = next(iter(sent.refused.values()), "it did not confirm in time")
            self._try_at = now + PAUSE_SECONDS
        self._contact.answered()

    def _measure(self) -> None:
        """Ask the broker how many messages wait, and set the window."""
        now = time.monotonic()
        if not len(self.outstanding):
            self.window.rest(now)
            self.waiting = 0
            return
        if now - self._measured_at < MEASURE_SECONDS:
            return
        self._measured_at = now
        self.waiting = self.transport.waiting()
        self._contact.answered()
        before = self.window.size
        outstanding = len(self.outstanding)
        self.window.measure(outstanding=outstanding, waiting=self.waiting, now=now)
        if self.window.size != before:
            for kind in self.kinds:
                self._in_flight.loads[kind.name].widen(self.window.size)
            if self.window.size > before:
                self._in_flight.made_room()

    def _end_overdue(self) -> None:
        """End runs whose reply did not come in time, unless their message may still be taken."""
        now = time.monotonic()
        for each in self.outstanding.overdue(now):
            if self.away is not None:
                each.deadline = now + min(WAIT / SECOND, each.patience)
            elif not (self.waiting and self.outstanding.may_wait(each)):
                text = f"no consumer of {self.via.name!r} answered within {each.patience:g} s"
                self._give_up(each, failure(each.run, TimeoutError(text)))
            elif now - each.began > LONGEST_IN_QUEUE_SECONDS:
                self._give_up(each, AGAIN)
            else:
                each.deadline = now + min(1.0, each.patience)

    def _give_up(self, each: Carriage, outcome: Outcome) -> None:
        self.outstanding.forget([each.run])
        self._in_flight.end(each.run, outcome)

    def _tell(self) -> None:
        """Raise an alert while no consumer takes anything; resolve it when one does."""
        now = time.monotonic()
        if not self.is_silent or self.away is not None:
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = now
        since, text = self._silent_since, None
        if since is not None and now - since > SILENT_SECONDS:
            text = (
                f"queue {self.via.name!r}: for {SILENT_SECONDS:g} s no consumer has taken a task; "
                f"start one with windlass consumer APP {self.via.name}"
            )
        if not self._has_heard and self.outstanding.has_answers:
            # A worker that is gone may have raised the alert.
            self._has_heard = True
            self._alerts = {kind.name: "" for kind in self.kinds}
        for kind in self.kinds:
            if text != self._alerts.get(kind.name):
                self._alert(kind.name, text)

    def _alert(self, kind: str, text: str | None) -> None:
        number, now = self._site.numbers.take()[0], self._site.clock.now()

        def work(connection: Connection) -> None:
            if text is None:
                resolve(connection, "no consumer", kind, text="consumers answer again", now=now)
            else:
                keep_alert(connection, number, Trouble("no consumer", kind, text), now=now)

        self._site.database.write(work)
        if text is None:
            self._alerts.pop(kind, None)
        else:
            self._alerts[kind] = text
            telemetry.emit("carrier.silent", queue=self.via.name, kind=kind, why=text)


def arguments_of(run: Run) -> bytes:
    """What the handler of a run is called with, as JSON by the names of its parameters."""
    if run.keeper is None and not run.turns:
        return without_trace(run.task.payload).encode()
    args, _ = run.given()
    names = list(run.kind.arguments.signature.parameters)
    return encode_arguments(dict(zip(names, args, strict=False)))
