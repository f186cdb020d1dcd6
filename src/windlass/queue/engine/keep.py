"""What a consumer reads and writes beside the effects of messages: ids, and messages it keeps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from windlass import telemetry
from windlass.core.alert.model import Trouble
from windlass.core.alert.store import raise_alert
from windlass.core.face import Site
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.queue.engine.effect import HeldMessage, ToKeep
from windlass.queue.model.consume import terms_of
from windlass.queue.model.message import beginning, cut_headers, plain_headers, stored
from windlass.queue.store import inbox
from windlass.queue.store.inbox import KeptRow, NewKept
from windlass.value.outcome import Failed, Outcome, Retried, Snoozed, storable

# A claim of a kept message lapses after this many microseconds, unless it is renewed.
LAPSE = 30_000_000
ALERT = "message failed"
DIED = "its workers died while they handled it"


class Keeping:
    """The inbox of one consumer."""

    def __init__(self, site: Site, kind: Kind) -> None:
        self._site = site
        self._database = site.database
        self._kind = kind

    def known(self, ids: Collection[str]) -> set[str]:
        """Those of the ids that were received before."""
        if not ids:
            return set()
        name = self._kind.name
        return self._database.read(lambda connection: inbox.known(connection, name, ids))

    def waiting_lanes(self, lanes: Collection[str]) -> set[str]:
        """Those of the lanes in which a message waits for another try."""
        name = self._kind.name
        return self._database.read(lambda connection: inbox.waiting_lanes(connection, name, lanes))

    def remember(self, held: Sequence[HeldMessage]) -> None:
        """Remember messages that are not handled: their handler has cancelled them."""
        name, until = self._kind.name, self._until()
        for each in held:

            def work(connection: Connection, each: HeldMessage = each) -> None:
                if each.row is not None:
                    inbox.take(connection, each.row)
                elif not inbox.known(connection, name, [each.id]):
                    inbox.remember(connection, name, [each.id], until=until)

            self._written_once(work)

    def keep(self, messages: Sequence[ToKeep]) -> None:
        """Keep messages that did not succeed. The broker may forget them then."""
        new = [_fitting(each) for each in messages if each.held.row is None]
        # The messages of a lane run in the order of their ids, whichever worker kept them.
        has_lane = any(each.held.lane is not None for each in new)
        numbers = self._site.numbers.take(len(messages), newest=has_lane)
        now = self._site.clock.now()
        for begin in range(0, len(new), 100):
            page = list(zip(numbers[begin:], new[begin : begin + 100], strict=False))
            if not self._keep_new(page, now):
                # Another delivery of one of them was handled meanwhile.
                for one in page:
                    self._keep_new([one], now)
        for each in messages:
            if each.held.row is not None:
                self._put_off(each, each.held.row, now)

    def to_keep(self, held: HeldMessage, outcome: Outcome) -> ToKeep:
        """How a message is kept whose try ended so."""
        now = self._site.clock.now()
        match outcome:
            case Snoozed():
                # This try does not count.
                return ToKeep(held, held.tries - 1, now + outcome.delay, outcome.overload)
            case Retried():
                return ToKeep(held, held.tries, now + outcome.delay, outcome.error)
            case Failed():
                return ToKeep(held, held.tries, None, outcome.error)
        raise AssertionError(f"{outcome!r} is not kept")

    def keep_inside(
        self, connection: Connection, ended: Sequence[tuple[HeldMessage, Outcome]]
    ) -> list[ToKeep]:
        """Keep messages in the transaction that remembers them, as their handler has answered."""
        kept = [self.to_keep(held, outcome) for held, outcome in ended]
        numbers, now = self._site.numbers.take(len(kept)), self._site.clock.now()
        rows = [_new(number, _fitting(each)) for number, each in zip(numbers, kept, strict=True)]
        inbox.keep(connection, self._kind.name, rows, now=now)
        for row in rows:
            if row.due_at is None:
                self._alert(connection, row.id, row.message_id, row.error or "", now)
        return kept

    def claim(self, rows: Sequence[KeptRow], *, worker: int) -> list[KeptRow]:
        """Count a try of kept messages, before they run; those that may run."""
        now, kind = self._site.clock.now(), self._kind
        until = now + LAPSE
        most = max(kind.terms.retry.retries.values(), default=0) + kind.max_lost
        numbers = self._site.numbers.take(len(rows))
        poison: list[KeptRow] = []

        def work(connection: Connection) -> list[KeptRow]:
            taken: list[KeptRow] = []
            poison.clear()
            for number, row in zip(numbers, rows, strict=True):
                if row.lost >= kind.max_lost or row.tries > most:
                    if inbox.put_off(
                        connection,
                        row,
                        tries=row.tries,
                        lost=row.lost,
                        due_at=None,
                        error=DIED,
                        now=now,
                    ):
                        poison.append(row)
                        self._alert(connection, number, row.message_id, DIED, now)
                    continue
                claimed = inbox.claim(connection, row, until=until)
                if claimed is not None:
                    taken.append(claimed)
            return taken

        none: list[KeptRow] = []
        taken = self._database.write_as(worker, work, lost=none)
        for row in poison:
            self.tell_failed(row.message_id, DIED)
        return taken

    def is_suspect(self, row: KeptRow) -> bool:
        """Whether a kept message must run alone: its workers died, or one loss would be its last.

        A loss before may have been that of another one, which ran at the same time.
        """
        return row.lost >= min(1, self._kind.max_lost - 1)

    def may_begin(self, held: HeldMessage) -> bool:
        """Count the start of a message that cannot be kept; False if enough workers died with it.

        It was delivered before. So each start that was counted ended with a worker, or with its
        connection.
        """
        starts = [f"start {number} of {held.id}" for number in range(self._kind.max_lost)]
        known = self.known(starts)
        left = [each for each in starts if each not in known]
        if left:
            name, until = self._kind.name, self._until()
            self._written_once(
                lambda connection: inbox.remember(connection, name, left[:1], until=until)
            )
        return bool(left)

    def tell_failed(self, message_id: str, error: str) -> None:
        """Tell that a message has failed."""
        telemetry.emit(
            "message.failed",
            kind=self._kind.name,
            queue=terms_of(self._kind).queue.name,
            message=message_id,
            error=error,
        )

    def renew(self, rows: Sequence[KeptRow]) -> None:
        """Keep the claims of messages that still run, or wait to."""
        until = self._site.clock.now() + LAPSE
        self._database.write(lambda connection: inbox.renew(connection, rows, until=until))

    def due(self, buckets: Sequence[range], *, limit: int) -> list[KeptRow]:
        """Kept messages whose next try is due."""
        name, now = self._kind.name, self._site.clock.now()
        return self._database.read(
            lambda connection: inbox.due(connection, name, now=now, buckets=buckets, limit=limit)
        )

    def _until(self) -> int:
        """Until when a message of now is remembered."""
        return self._site.clock.now() + terms_of(self._kind).remember

    def _keep_new(self, page: Sequence[tuple[int, ToKeep]], now: int) -> bool:
        """Keep messages that are not kept yet; False, and nothing is written, if one is known."""
        name, until = self._kind.name, self._until()

        def work(connection: Connection) -> bool:
            if inbox.known(connection, name, [each.held.id for _, each in page]):
                return False
            inbox.remember(connection, name, [each.held.id for _, each in page], until=until)
            inbox.keep(connection, name, [_new(number, each) for number, each in page], now=now)
            for number, each in page:
                if each.due_at is None:
                    self._alert(connection, number, each.held.id, each.error or "", now)
            return True

        return self._written_once(work)

    def _put_off(self, each: ToKeep, row: KeptRow, now: int) -> None:
        number = self._site.numbers.take()[0]

        def work(connection: Connection) -> None:
            noted = inbox.put_off(
                connection,
                row,
                tries=each.tries,
                lost=each.lost,
                due_at=each.due_at,
                error=each.error,
                now=now,
            )
            if noted and each.due_at is None:
                self._alert(connection, number, row.message_id, each.error or "", now)

        self._database.write(work)

    def _alert(
        self, connection: Connection, number: int, message_id: str, error: str, now: int
    ) -> None:
        text = f"message {message_id!r:.100}: {error:.500}"
        raise_alert(connection, number, Trouble(ALERT, self._kind.name, text), now=now)

    def _written_once(self, work: Callable[[Connection], bool | None]) -> bool:
        """Write; False if another transaction remembers one of the messages at this moment."""
        try:
            return self._database.write(work) is not False
        except Exception as problem:
            if self._database.dialect.is_duplicate(problem):
                return False
            raise


def _fitting(each: ToKeep) -> ToKeep:
    """What cannot be kept for another try has failed."""
    what = each.too_large
    if what is None:
        return each
    why = (
        f"{what} too large to be kept whole, so it cannot be tried again here; the broker was told "
        "to reject it, and its dead-letter exchange has it if the queue has one"
    )
    return replace(each, due_at=None, error=f"{each.error or 'it would have to wait'}; {why}")


def _new(number: int, each: ToKeep) -> NewKept:
    message = each.held.message
    is_whole = each.too_large is None
    return NewKept(
        id=number,
        message_id=each.held.id,
        tries=each.tries,
        due_at=each.due_at,
        lane=each.held.lane,
        stored=stored(message.body) if is_whole else beginning(message.body),
        content_type=storable(message.content_type)[:100],
        headers=(plain_headers if is_whole else cut_headers)(message.headers),
        error=each.error,
    )
