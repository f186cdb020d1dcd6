"""The loop of a consumer: receives messages, runs its handler, and tells the broker.

Who is the authority? The inbox in the database. A message counts when its id is in the inbox, in
the transaction that has its effects, or in the one that keeps it for another try. Only then is it
acknowledged. Everything else may happen twice: a delivery, a call of the handler, a rollback.

What does each failure do? The worker dies: the broker delivers again what was not acknowledged, and
what has committed is recognised by its id. The broker dies: what is in hand runs to its end, and is
recognised when it is delivered again. The database is away: nothing commits and nothing is
acknowledged. A message that the handler cannot handle is kept in the database, tried again there,
and fails after its last try: it never stops those behind it, except in its lane while it is tried.
A message that was delivered before may have killed its worker: it is kept first, so that its tries
are counted before they begin. `quarantine.py` says what becomes of those whose workers die again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from uuid import uuid4

from windlass import telemetry
from windlass.clock import SECOND
from windlass.core.face import FaceLoop, Workplace
from windlass.core.run.ready import Run
from windlass.core.task.kind import Kind
from windlass.errors import BrokerUnavailable, WindlassError
from windlass.queue.broker import Subscription, broker_of
from windlass.queue.engine.contact import Contact
from windlass.queue.engine.effect import Disturbances, HeldMessage, MessageRun, ToKeep
from windlass.queue.engine.keep import DIED, Keeping
from windlass.queue.engine.quarantine import Suspects
from windlass.queue.engine.tally import ConsumerTally
from windlass.queue.model.consume import NoId, plain, terms_of
from windlass.queue.model.message import Delivered, ReceivedMessage
from windlass.queue.store import outbox
from windlass.queue.store.inbox import TABLES, KeptRow
from windlass.value.outcome import Cancelled, Failed, Retried, Snoozed, describe

IDLE_SECONDS = 0.3
DRAIN_SECONDS = 0.02
BUSY_SECONDS = 0.005
HELD_SECONDS = 0.25
KEPT_SECONDS = 0.5
ALIVE_SECONDS = 1.0
RENEW_SECONDS = 8.0
TABLES_SECONDS = 5.0
# Microseconds until a kept message is tried again that could not commit.
AGAIN = 1_000_000
MOST_AT_ONCE = 500


class ConsumerLoop(FaceLoop):
    """Consumes one queue in one worker."""

    name = "consume"
    begins_runs = True

    def __init__(self, kind: Kind, workplace: Workplace) -> None:
        super().__init__()
        self._kind = kind
        self._terms = terms_of(kind)
        self._workplace = workplace
        self._site = workplace.site
        self._in_flight = workplace.in_flight
        self._load = workplace.in_flight.loads[kind.name]
        self._broker = broker_of(self._terms.queue)
        self._contact = Contact(workplace.site, self._terms.queue)
        self._keeping = Keeping(workplace.site, kind)
        self._tally = ConsumerTally(kind, workplace)
        self._subscription: Subscription | None = None
        self._me = 0
        self._ready: deque[HeldMessage] = deque()
        self._suspects = Suspects(workplace.in_flight)
        self._landed: deque[MessageRun] = deque()
        # What was delivered, until it is decided about; if the database fails, that is repeated.
        self._unsorted: list[Delivered] = []
        # Everything in hand by id, and the messages that wait for the first of their lane.
        self._in_hand: dict[str, HeldMessage] = {}
        self._lanes: dict[str, deque[HeldMessage]] = {}
        self._disturbed = Disturbances()
        self._kept_at = self._alive_at = self._renewed_at = float("-inf")
        self._holds_lanes = False
        self._wanted = 1
        self._empty_at = 0

    def tick(self) -> float:
        me, is_halted = self._workplace.worker(), self._in_flight.is_halted
        if is_halted or me != self._me:
            self._drop_all()
            self._me = me
        if is_halted:
            return HELD_SECONDS
        if not self._site.database.schema.has(TABLES):
            return TABLES_SECONDS
        wanted = self._wanted
        self._settle()
        is_held = self._workplace.gate.is_held(self._kind.name)
        if is_held:
            self._stop_receiving()
            found = 0
        else:
            found = self._receive() + self._fetch_kept()
            self._fill()
        self._stay_alive()
        self._tally.write(self)
        if not found and not self._in_hand:
            self._empty_at = wanted
        self.is_idle = self._empty_at == self._wanted
        self.trouble = self._contact.problem if self._workplace.until_idle else None
        if is_held:
            return HELD_SECONDS
        if self._in_hand:
            return BUSY_SECONDS
        if self._terms.lane is not None and not self._holds_lanes:
            return HELD_SECONDS
        return min(self._contact.seconds_to_wait, KEPT_SECONDS)

    def look_again(self) -> None:
        self._wanted += 1
        self.is_idle = False
        self.wake()

    def landed(self, run: Run) -> None:
        """A run has ended and has its outcome. Called under the lock of `InFlight`."""
        assert isinstance(run, MessageRun)
        self._landed.append(run)
        self.wake()

    def taken_back(self, run: Run) -> None:
        """A queued run must not start now. Called under the lock of `InFlight`."""
        assert isinstance(run, MessageRun)
        for each in reversed(run.held):
            (self._suspects.waiting if each.is_suspect else self._ready).appendleft(each)

    def close(self) -> None:
        """Tell the broker about what has ended, and give the rest back to it."""
        try:
            self._settle()
            self._give_back_kept(self._in_hand.values())
            self._tally.write(self, now=True)
        except Exception as problem:
            telemetry.emit("loop.failed", loop=self.name, error=str(problem)[:300], failures=1)
        self._drop_all()
        self._broker.close()

    # Receiving

    def _receive(self) -> int:
        """Take messages from the broker; how many."""
        room = min(self._terms.prefetch - len(self._in_hand), MOST_AT_ONCE)
        if room <= 0 or self._contact.seconds_to_wait or not self._may_receive():
            return 0
        is_drain = self._workplace.until_idle
        wait = 0.0 if self._in_hand or self._ready else DRAIN_SECONDS if is_drain else IDLE_SECONDS
        try:
            if self._subscription is None:
                self._subscription = self._broker.subscribe(
                    self._terms.queue,
                    prefetch=self._terms.prefetch,
                    alone=None if self._terms.lane is None else str(self._me),
                )
            if not self._unsorted:
                self._unsorted = self._subscription.take(room, wait_seconds=wait)
        except BrokerUnavailable as problem:
            self._contact.failed(problem)
            return 0
        found = len(self._unsorted)
        if found:
            self._sort(self._unsorted)
            self._unsorted = []
        elif is_drain and not self._in_hand:
            # A drain ends only when the queue is empty, not because a message takes its time.
            return self._depth()
        self._contact.answered()
        return found

    def _depth(self) -> int:
        try:
            return self._broker.depth(self._terms.queue)
        except BrokerUnavailable as problem:
            self._contact.failed(problem)
            return 0

    def _may_receive(self) -> bool:
        """Whether this worker receives; for a kind with lanes, one does."""
        if self._terms.lane is None or self._holds_lanes:
            return True
        number, me = self._contact.id, self._me
        self._holds_lanes = self._site.database.write_as(
            me, lambda connection: outbox.hold(connection, number, worker=me), lost=False
        )
        return self._holds_lanes

    def _sort(self, found: Sequence[Delivered]) -> None:
        """Decide about each message: it is known, waits for its turn, runs, or is kept."""
        named = [(self._id_of(each), each) for each in found]
        known = self._keeping.known({name for name, _ in named if name is not None})
        self._tally.duplicates += len(known)
        done: list[Delivered] = []
        kept: list[ToKeep] = []
        fresh: list[HeldMessage] = []
        for name, delivery in named:
            if name is not None and name in known:
                done.append(delivery)
            elif name is not None and name in self._in_hand:
                self._in_hand[name].deliveries.append(delivery)
            else:
                held = self._held(name, delivery)
                if isinstance(held, ToKeep):
                    kept.append(held)
                else:
                    fresh.append(held)
                    self._in_hand[held.id] = held
        self._acknowledge(done)
        # First: a message that is kept comes before those behind it in its lane.
        self._keep(kept)
        self._keep(self._line_up(fresh))

    def _id_of(self, delivery: Delivered) -> str | None:
        try:
            return self._terms.id_of(delivery)
        except Exception as problem:
            if not isinstance(problem, NoId):
                telemetry.emit("message.refused", kind=self._kind.name, error=describe(problem)[0])
            return None

    def _held(self, name: str | None, delivery: Delivered) -> HeldMessage | ToKeep:
        """The message, ready to run; or to be kept, because it cannot."""
        message = self._terms.message(delivery, name or f"none-{uuid4()}", 1)
        held = HeldMessage(message.id, message, None, deliveries=[delivery])
        try:
            if name is None:
                self._terms.id_of(delivery)
            held.value = self._terms.value_of(message)
            held.lane = self._terms.lane_of(held.value)
        except Exception as problem:
            # Another try would end in the same way, until the code is another.
            return ToKeep(held, 1, None, describe(problem)[0])
        if delivery.is_again and message.too_large is not None:
            held.is_suspect = True
        elif delivery.is_again and held.lane not in self._lanes:
            return ToKeep(held, 0, self._site.clock.now(), None)
        return held

    def _line_up(self, fresh: Sequence[HeldMessage]) -> list[ToKeep]:
        """Queue messages in the order of their lanes; those to keep behind others of theirs."""
        lanes = {each.lane for each in fresh if each.lane is not None}
        waiting = self._keeping.waiting_lanes(lanes) if lanes else set()
        behind: list[ToKeep] = []
        for each in fresh:
            if each.lane is None:
                self._begin_soon([each])
            elif each.lane in waiting:
                behind.append(ToKeep(each, 0, self._site.clock.now(), None))
            elif each.lane in self._lanes:
                self._lanes[each.lane].append(each)
            else:
                self._lanes[each.lane] = deque()
                self._begin_soon([each])
        return behind

    def _begin_soon(self, held: Sequence[HeldMessage], *, first: bool = False) -> None:
        """They may begin, before the others or behind them; suspects by themselves."""
        self._suspects.add([each for each in held if each.is_suspect])
        others = [each for each in held if not each.is_suspect]
        if first:
            self._ready.extendleft(reversed(others))
        else:
            self._ready.extend(others)

    def _fetch_kept(self) -> int:
        """Take messages from the database whose next try is due; how many."""
        now, suspects = time.monotonic(), self._suspects
        if any(each.is_suspect for each in self._in_hand.values()):
            return 0
        if suspects.must_wait:
            if not suspects.may_begin():
                return int(suspects.is_wanted)
        elif now - self._kept_at < KEPT_SECONDS and not self._workplace.until_idle:
            return 0
        self._kept_at = now
        room, share = self._room_for_kept(), self._workplace.ring.share
        rows = self._keeping.due(share.runs, limit=room) if room > 0 and share.runs else []
        rows = [row for row in rows if row.message_id not in self._in_hand]
        doubtful = [row for row in rows if self._keeping.is_suspect(row)]
        if not doubtful:
            suspects.leave()
        elif suspects.want():
            rows = doubtful[:1]
        else:
            return len(rows)
        if not rows:
            return 0
        if len(rows) == room:
            self._kept_at = float("-inf")
        for row in self._keeping.claim(rows, worker=share.worker):
            self._take_kept(row, is_suspect=bool(doubtful))
        return len(rows)

    def _room_for_kept(self) -> int:
        """How many kept messages may be claimed: not many more than run at once.

        A claimed one counts as lost if the worker dies.
        """
        most = min(2 * self._load.limit * (self._terms.many or 1), MOST_AT_ONCE)
        return most - sum(each.row is not None for each in self._in_hand.values())

    def _take_kept(self, row: KeptRow, *, is_suspect: bool) -> None:
        headers = plain(row.headers)
        message = ReceivedMessage(
            row.message_id,
            row.stored.body,
            row.content_type,
            headers,
            self._terms.queue.name,
            row.tries,
        )
        held = HeldMessage(row.message_id, message, None, lane=row.lane, row=row)
        held.disturbed = self._disturbed.of(row.message_id)
        held.is_suspect = is_suspect
        try:
            held.value = self._terms.value_of(message)
        except Exception as problem:
            self._keep([ToKeep(held, row.tries, None, describe(problem)[0])])
            return
        self._in_hand[held.id] = held
        self._begin_soon([held])

    # Running

    def _fill(self) -> None:
        """Queue as many calls of the handler as may begin."""
        gate, in_flight, name = self._workplace.gate, self._in_flight, self._kind.name
        room = 0 if self._workplace.is_quiet() else in_flight.capacity.room_for_items(name)
        if not room or self._load.is_tripped or gate.is_tripped(name):
            return
        with self._suspects.quarantine.lock:
            able = self._able_to_begin()
            if not able:
                return
            version = in_flight.plan_version
            allowed = gate.allow(name, min(room, able))
            runs: list[MessageRun] = []
            now = self._site.clock.now()
            while len(runs) < allowed.most and (group := self._next_group()):
                runs.append(
                    MessageRun(
                        group,
                        self._load,
                        database=self._site.database,
                        worker=self._me,
                        now=now,
                        keeper=self,
                        keep_inside=self._keeping.keep_inside,
                    )
                )
            if runs:
                runs[0].is_probe = allowed.is_probe
                for run, moment in zip(runs, allowed.moments, strict=False):
                    run.start_at = moment
                in_flight.add_items(runs, version=version)
            gate.took(name, allowed, len(runs))

    def _able_to_begin(self) -> int:
        """How many messages may begin: one alone, if its worker has died with it before."""
        waiting = self._suspects.waiting
        if not waiting:
            is_held = not self._ready or self._suspects.must_wait or self._waits_for_company()
            return 0 if is_held else len(self._ready)
        if not self._suspects.may_begin():
            return 0
        first = waiting[0]
        if first.row is None and not first.is_counted:
            if not self._keeping.may_begin(first):
                waiting.popleft()
                self._keep([ToKeep(first, self._kind.max_lost, None, DIED)])
                return 0
            first.is_counted = True
        return 1

    def _next_group(self) -> list[HeldMessage]:
        """The messages for one call of the handler."""
        if self._suspects.waiting:
            return [self._suspects.waiting.popleft()]
        if not self._ready or self._waits_for_company():
            return []
        group = [self._ready.popleft()]
        most = self._terms.many or 1
        while (
            len(group) < most and self._ready and not (group[0].is_alone or self._ready[0].is_alone)
        ):
            group.append(self._ready.popleft())
        return group

    def _waits_for_company(self) -> bool:
        """Whether the first message waits for others that may be in its call."""
        most, wait, first = self._terms.many or 1, self._terms.wait, self._ready[0]
        if not wait or self._workplace.until_idle or first.is_alone or first.row is not None:
            return False
        is_full = len(self._ready) >= min(most, self._terms.prefetch)
        return not is_full and time.monotonic() - first.since < wait / SECOND

    # Telling

    def _settle(self) -> None:
        """Write down how calls ended, and tell the broker."""
        landed = [self._landed.popleft() for _ in range(len(self._landed))]
        done: list[HeldMessage] = []
        cancelled: list[HeldMessage] = []
        kept: list[ToKeep] = []
        kept_inside: list[ToKeep] = []
        split: list[HeldMessage] = []
        unsure: list[HeldMessage] = []
        for run in landed:
            run.is_over = True
            if run.is_unsure:
                unsure += run.held
            elif run.is_committed:
                left = {each.held.id for each in run.kept_inside}
                done += [each for each in run.held if each.id not in left]
                kept_inside += run.kept_inside
            elif (outcomes := run.outcomes) is None:
                # One of them, or several: find out which.
                split += run.held
            else:
                for held, outcome in zip(run.held, outcomes, strict=True):
                    if isinstance(outcome, Retried | Failed | Snoozed):
                        kept.append(self._keeping.to_keep(held, outcome))
                    else:
                        done.append(held)
                        cancelled += [held] if isinstance(outcome, Cancelled) else []
        # A kept message whose row is still there is given back, without counting a try.
        again = self._site.clock.now() + AGAIN
        kept += [ToKeep.again(each, each.row, due_at=again) for each in unsure if each.row]
        self._disturbed.note([*done, *(each.held for each in (*kept, *kept_inside))])
        kept += self._behind(kept)
        try:
            self._keeping.remember(cancelled)
            known = self._keeping.known({each.id for each in unsure if each.row is None})
            self._keeping.keep(kept)
        except Exception:
            # Nothing is acknowledged: try again when the database answers.
            self._landed.extendleft(reversed(landed))
            raise
        for run in landed:
            self._tally.add(run)
        for each in split:
            each.is_alone = True
        others = [each for each in unsure if each.row is None and each.id not in known]
        self._begin_soon([*split, *others], first=True)
        self._tally.duplicates += len(known)
        self._finish([*done, *(each for each in unsure if each.id in known)])
        self._finish_kept([*kept, *kept_inside])

    def _behind(self, messages: Sequence[ToKeep]) -> list[ToKeep]:
        """The messages behind these in their lanes: they wait in the database, too."""
        now = self._site.clock.now()
        lanes = {each.held.lane for each in messages if each.due_at is not None}
        return [
            ToKeep(each, 0, now, None)
            for lane in lanes
            if lane is not None
            for each in self._lanes.get(lane, ())
        ]

    def _keep(self, messages: Sequence[ToKeep]) -> None:
        """Keep messages that do not run now."""
        if messages:
            self._keeping.keep(messages)
            self._finish_kept(messages)

    def _finish_kept(self, messages: Sequence[ToKeep]) -> None:
        if not messages:
            return
        kept = {id(each.held) for each in messages}
        for lane, waiting in self._lanes.items():
            if any(id(each) in kept for each in waiting):
                self._lanes[lane] = deque(each for each in waiting if id(each) not in kept)
        for each in messages:
            is_too_large = each.too_large is not None
            if is_too_large and self._subscription is not None:
                # It may go to the dead-letter exchange of the queue.
                self._reject(each.held)
            if each.due_at is None or is_too_large:
                self._keeping.tell_failed(each.held.id, each.error or "")
        self._finish([each.held for each in messages])
        self._kept_at = float("-inf")

    def _finish(self, held: Iterable[HeldMessage]) -> None:
        """They are done or kept: the broker may forget them, and their lanes go on."""
        told: list[Delivered] = []
        for each in held:
            was_first = self._in_hand.pop(each.id, None) is not None and each.row is None
            told += each.deliveries
            if each.lane is not None and was_first:
                self._go_on(each.lane)
        self._acknowledge(told)

    def _go_on(self, lane: str) -> None:
        waiting = self._lanes.get(lane)
        if waiting:
            self._begin_soon([waiting.popleft()])
        else:
            self._lanes.pop(lane, None)

    def _acknowledge(self, deliveries: Sequence[Delivered]) -> None:
        if not deliveries or self._subscription is None:
            return
        try:
            self._subscription.acknowledge(deliveries)
        except BrokerUnavailable as problem:
            # They are delivered again, and recognised.
            self._contact.failed(problem)

    def _reject(self, held: HeldMessage) -> None:
        deliveries, held.deliveries = held.deliveries, []
        try:
            assert self._subscription is not None
            self._subscription.reject(deliveries)
        except BrokerUnavailable as problem:
            self._contact.failed(problem)

    def _stay_alive(self) -> None:
        """The broker must hear from us while handlers run."""
        now = time.monotonic()
        if now - self._alive_at < ALIVE_SECONDS:
            return
        self._alive_at = now
        if now - self._renewed_at >= RENEW_SECONDS:
            self._renewed_at = now
            rows = [each.row for each in self._in_hand.values() if each.row is not None]
            if rows:
                self._keeping.renew(rows)
        try:
            self._broker.keep_alive()
        except BrokerUnavailable as problem:
            self._contact.failed(problem)

    def _stop_receiving(self) -> None:
        """Give back what has not started, when nothing runs: the kind is paused, or held back."""
        if self._running():
            # The broker would not deliver again what a subscription that goes on has had.
            return
        self._give_back_kept(self._in_hand.values())
        self._ready.clear()
        self._suspects.leave()
        self._unsorted = []
        self._in_hand.clear()
        self._lanes.clear()
        self._unsubscribe()

    def _give_back_kept(self, held: Iterable[HeldMessage]) -> None:
        """End the claims of kept messages that have not run."""
        now = self._site.clock.now()
        self._keeping.keep(
            [ToKeep.again(each, each.row, due_at=now) for each in held if each.row is not None]
        )

    def _running(self) -> list[MessageRun]:
        def look() -> list[MessageRun]:
            queued = [run for run in self._in_flight.queues if run.keeper is self]
            running = [run for run in self._in_flight.running.values() if run.keeper is self]
            return [
                run for run in (*queued, *running, *self._landed) if isinstance(run, MessageRun)
            ]

        return self._in_flight.undisturbed(look)

    def _unsubscribe(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is None:
            return
        try:
            subscription.close()
        except WindlassError as problem:
            telemetry.log.debug("closing a subscription: %s", problem)

    def _drop_all(self) -> None:
        """Forget everything in hand; the broker, or the database, has it."""
        self._in_flight.drop_kept(self)
        self._unsorted = []
        self._ready.clear()
        self._suspects.leave()
        self._landed.clear()
        self._in_hand.clear()
        self._lanes.clear()
        self._holds_lanes = False
        self._unsubscribe()
