"""The contact with a broker: how long to wait after an error, and who is told about it."""

from __future__ import annotations

import random
import time
from typing import Protocol

from windlass import telemetry
from windlass.core.alert.model import Trouble
from windlass.core.alert.store import keep_alert, resolve
from windlass.core.face import Site
from windlass.database.connection import Connection
from windlass.errors import BrokerRefused, BrokerUnavailable
from windlass.queue.store import outbox

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
# So long a broker may be away before people are told: it may just be restarted.
ALERT_SECONDS = 15.0
NOTE_SECONDS = 5.0
# How long a full queue is left alone: shortly while it takes some, longer and longer if none.
MOVING_PAUSE = 0.1
FULL_PAUSE = 1.0
LONGEST_FULL_PAUSE = 5.0
TELL_FULL_SECONDS = 60.0
# A drain gives up after this many tries that sent nothing.
STUCK = 5
ALERT = "broker"


class Addressed(Protocol):
    """A queue, or another way to consumers."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str: ...


class Contact:
    """What a worker knows about the broker of one queue."""

    def __init__(self, site: Site, queue: Addressed) -> None:
        self._site = site
        self.queue = queue
        self._failures = 0
        self._since = 0.0
        self._retry_at = 0.0
        self._noted_at = float("-inf")
        self._is_alerted = False
        self._has_asked = False
        # How often in a row a full queue took nothing, and when that was last told.
        self._refusals = 0
        self._told_full_at: float | None = None
        self.problem: BrokerUnavailable | None = None
        self.number: int | None = None

    @property
    def id(self) -> int:
        """The id of the row of its queue."""
        if self.number is None:
            site, queue = self._site, self.queue
            number, now = site.numbers.take()[0], site.clock.now()
            self.number = site.database.write(
                lambda connection: outbox.ensure_queue(
                    connection,
                    site.database.dialect,
                    number,
                    name=queue.name,
                    address=queue.address,
                    now=now,
                )
            )
        return self.number

    @property
    def seconds_to_wait(self) -> float:
        """How long the broker is left alone after an error."""
        return max(0.0, self._retry_at - time.monotonic())

    def failed(self, problem: BrokerUnavailable) -> None:
        """The broker did not answer, or refused."""
        now = time.monotonic()
        self.problem = problem
        if now < self._retry_at:
            # Several calls notice one loss, as acknowledgements do: it is one failure.
            return
        if not self._failures:
            self._since = now
        self._failures += 1
        pause = min(FIRST_PAUSE * 2 ** min(self._failures - 1, 10), LONGEST_PAUSE)
        self._retry_at = now + pause * random.uniform(0.5, 1.0)
        if self._failures <= 3 or self._failures % 20 == 0:
            telemetry.emit(
                "queue.failed",
                queue=self.queue.name,
                broker=self.queue.address,
                error=str(problem)[:300],
                failures=self._failures,
            )
        is_time = isinstance(problem, BrokerRefused) or now - self._since >= ALERT_SECONDS
        self._note(str(problem), alert=is_time)

    def full(self, why: str, *, refused: int, is_moving: bool) -> None:
        """The broker answers, and its queue takes only some messages, or none."""
        now = time.monotonic()
        self._refusals = 0 if is_moving else self._refusals + 1
        stuck = min(self._refusals * FULL_PAUSE, LONGEST_FULL_PAUSE)
        self._retry_at = now + (MOVING_PAUSE if is_moving else stuck)
        if self._refusals >= STUCK:
            self.problem = BrokerUnavailable(self.queue.address, why)
        if self._told_full_at is None or now - self._told_full_at >= TELL_FULL_SECONDS:
            self._told_full_at = now
            telemetry.emit("queue.full", queue=self.queue.name, messages=refused, error=why)
        self._note(why, alert=False)

    def answered(self) -> None:
        """The broker has answered."""
        if self._failures:
            telemetry.emit("queue.back", queue=self.queue.name, broker=self.queue.address)
        if self._failures or self._told_full_at is not None:
            self._noted_at = float("-inf")
        self._refusals, self._told_full_at = 0, None
        self._failures, self._retry_at, self.problem = 0, 0.0, None
        now = time.monotonic()
        if now - self._noted_at < NOTE_SECONDS:
            return
        self._noted_at = now
        number, moment = self.id, self._site.clock.now()
        # Another worker may have raised the alert, also one that is gone.
        ends_alert, self._has_asked = self._is_alerted or not self._has_asked, True
        self._is_alerted = False

        def work(connection: Connection) -> None:
            outbox.note_answer(connection, number, now=moment)
            if ends_alert:
                text = f"the broker at {self.queue.address} answers"
                resolve(connection, ALERT, self.queue.name, text=text, now=moment)

        self._site.database.write(work, tries=2)

    def _note(self, error: str, *, alert: bool) -> None:
        now = time.monotonic()
        is_new = alert and not self._is_alerted
        if not is_new and now - self._noted_at < NOTE_SECONDS:
            return
        self._noted_at = now
        moment, number = self._site.clock.now(), self._site.numbers.take()[0]
        mine = self.id

        def work(connection: Connection) -> None:
            outbox.note_error(connection, mine, error=error, now=moment)
            if alert:
                trouble = Trouble(ALERT, self.queue.name, f"queue {self.queue.name!r}: {error}")
                keep_alert(connection, number, trouble, now=moment)

        self._site.database.write(work, tries=2)
        self._is_alerted |= alert
