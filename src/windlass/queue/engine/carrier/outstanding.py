"""The runs that a carrier has sent, or is about to send, and that have no reply yet."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from windlass.core.run.ready import Run


@dataclass(eq=False, slots=True)
class Carriage:
    """One run on its way: sent under `id`, which no other sending has."""

    id: str
    run: Run
    body: bytes = field(repr=False)
    # The order in which they were first sent.
    place: int
    # How long to wait for the reply, in seconds, and until when, once it is sent.
    patience: float
    began: float
    # After this a consumer does not begin it.
    start_by: float
    deadline: float | None = None

    @property
    def is_sent(self) -> bool:
        return self.deadline is not None


class Outstanding:
    """The sendings without a reply, by id. The sender and the receiver share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_id: dict[str, Carriage] = {}
        self._by_run: dict[Run, str] = {}
        # The place of the newest sending that was answered: consumers took what is before it.
        self._answered = -1
        self.answered_at = float("-inf")

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, sending: Carriage) -> None:
        with self._lock:
            self._by_id[sending.id] = sending
            self._by_run[sending.run] = sending.id

    def answered(self, number: str, *, now: float) -> Carriage | None:
        """The sending that a reply is about; None if nobody waits for it any more.

        Only the first reply finds it.
        """
        with self._lock:
            self.answered_at = now
            found = self._by_id.pop(number, None)
            if found is not None:
                del self._by_run[found.run]
                self._answered = max(self._answered, found.place)
            return found

    @property
    def has_answers(self) -> bool:
        """Whether any consumer has answered."""
        return self.answered_at > float("-inf")

    def stop(self, run: Run) -> None:
        """The kernel has ended a run."""
        self.forget([run])

    def forget(self, runs: Iterable[Run]) -> None:
        """Wait no longer for the replies of these runs."""
        with self._lock:
            for run in runs:
                number = self._by_run.pop(run, None)
                if number is not None:
                    del self._by_id[number]

    def overdue(self, now: float) -> list[Carriage]:
        """Those whose deadline has passed."""
        with self._lock:
            sent = [each for each in self._by_id.values() if each.deadline is not None]
        return [each for each in sent if each.deadline is not None and each.deadline <= now]

    def may_wait(self, sending: Carriage) -> bool:
        """Whether it may still be in the queue: nothing that was sent after it has a reply."""
        return sending.place > self._answered

    @property
    def oldest(self) -> float | None:
        """When the oldest began, on the monotonic clock."""
        with self._lock:
            return min((each.began for each in self._by_id.values()), default=None)

    @property
    def all(self) -> list[Carriage]:
        with self._lock:
            return list(self._by_id.values())
