"""Decides deductions: in the cache, then on the disk, then the caller hears of it.

1. One script of the cache decides about all requests of a group, and remembers each id that took
   something. The decision has a name.
2. One transaction of the database writes a record for each request, if the epoch is the present
   one and its allotments suffice. Only now the callers get their answers.
3. The cache is told that the decision of that name is recorded.

A process that dies between 1 and 2 has told nobody. Asked again, the cache says which decision took
the id, and 2 follows. A decision that nobody asks about again is recorded by whoever finds it
(`sweep`). If the cache has lost what it knew, its epoch is closed: what was decided and not
recorded is void, and what is left is counted anew by the book.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from windlass import telemetry
from windlass.clock import Clock, to_datetime
from windlass.database.database import first_line
from windlass.errors import CacheUnavailable, DatabaseUnavailable
from windlass.ledger.cache.client import HotCache
from windlass.ledger.engine.execute import RequestExecutor
from windlass.ledger.engine.hot.book import HotBook
from windlass.ledger.engine.hot.sync import Syncer
from windlass.ledger.model.hot import (
    CacheDecision,
    Epoch,
    Question,
    Record,
    Verdict,
    question_of,
    request_of,
)
from windlass.ledger.model.hot import new_name as name_it
from windlass.ledger.model.ledger import (
    Conflict,
    Deduct,
    Deduction,
    DeductionLine,
    DeductionStatus,
    Outcome,
    Request,
    Undecided,
    decode_refusal,
    difference,
)
from windlass.ledger.store.hot import Closed, RecordKey, Used

# For how long the cache remembers an id. After that the records answer.
REMEMBER_SECONDS = 3_600
# An epoch may end, and a SKU may be allotted, while a group is decided.
ROUNDS = 5
# The book had none of a SKU: it is asked again after this long.
EMPTY_SECONDS = 1.0

Asked = Mapping[int, Deduct]
Answers = dict[int, Outcome]


class HotDecider:
    """Decides the deductions of one lane in this process."""

    def __init__(
        self,
        hot: HotBook,
        cache: HotCache,
        book: RequestExecutor,
        syncer: Syncer,
        clock: Clock,
        *,
        refill: Callable[[str], int],
        starts: bool,
    ) -> None:
        self._hot = hot
        self._cache = cache
        self._book = book
        self._syncer = syncer
        self._clock = clock
        # How much of a SKU is allotted when little is left, and whether also when none ever was.
        self._refill = refill
        self._starts = starts
        self._lock = threading.Lock()
        self._known: Epoch | None = None
        self._done: list[str] = []
        self._under_way: set[str] = set()
        self._empty: dict[str, float] = {}
        # SKUs of which little is left.
        self.low: set[str] = set()

    def execute(self, requests: Sequence[Request]) -> list[Outcome]:
        """The answers, in order. One that is not known is `Undecided`."""
        answers: Answers = {}
        waiting = {number: each for number, each in enumerate(requests) if isinstance(each, Deduct)}
        while waiting:
            # An id that is asked twice gets its second answer when it has its first.
            once: dict[str, int] = {}
            for number, request in waiting.items():
                once.setdefault(request.id, number)
            part = {number: waiting.pop(number) for number in once.values()}
            answers |= self._decide(part, name_it())
        return [answers[number] for number in range(len(requests))]

    def sweep(self, name: str) -> None:
        """Record a decision of another call, which may have died."""
        epoch = self.epoch()
        questions = self._cache.questions_of(epoch.token, name)
        asked = {at: request_of(Record(q.id, name, q.body)) for at, q in enumerate(questions)}
        answers = self._decide(asked, name_it())
        if not any(isinstance(each, Undecided) for each in answers.values()):
            self._cache.settle(epoch.token, [name])

    def pending(self) -> list[str]:
        """Decisions that are not said to be recorded, without those of this process."""
        found = self._cache.pending(self.epoch().token)
        with self._lock:
            return [name for name in found if name not in self._under_way]

    def flush(self) -> None:
        """Tell the cache what is recorded."""
        with self._lock:
            done, self._done = self._done, []
        if done:
            self._cache.settle(self.epoch().token, done)

    def epoch(self, *, fresh: bool = False) -> Epoch:
        """The present epoch as this process knows it, or read anew."""
        known = self._known
        if known is None or fresh:
            known = self._known = self._hot.epoch()
        return known

    def renew(self) -> Epoch:
        """Begin a new epoch if the one that this process knows is still the present one."""
        before = self.epoch()
        present = self.epoch(fresh=True)
        if present.token == before.token:
            self._begin(before.token, "the cache was restarted, replaced or emptied")
            present = self.epoch()
        return present

    def _begin(self, before: str, why: str) -> None:
        is_first = self.epoch().number == 0
        self._hot.renew(before)
        number = self.epoch(fresh=True).number
        if not is_first:
            telemetry.emit("hot.epoch", lane=self._hot.lane, epoch=number, why=why)

    def refill(self, skus: Iterable[str]) -> dict[str, int]:
        """Allot more of these SKUs, as far as the book has it; how much of each."""
        now = time.monotonic()
        wanted = {
            sku: quantity
            for sku in skus
            if (quantity := self._refill(sku)) and self._empty.get(sku, 0.0) <= now
        }
        if not wanted:
            return {}
        moved = self._hot.allot(wanted, partly=True)
        for sku in wanted:
            if sku not in moved:
                self._empty[sku] = now + EMPTY_SECONDS
        if moved:
            self.tell()
        return moved

    def tell(self) -> None:
        """Tell the cache what is allotted."""
        epoch = self.epoch(fresh=True)
        allotments = [each for each in epoch.allotments.values() if each.is_open]
        if allotments and self._cache.limit(epoch.token, allotments) is None:
            self.renew()

    def _decide(self, asked: Asked, name: str) -> Answers:
        answers: Answers = {}
        why = "the hot lane began too many epochs meanwhile"
        with self._lock:
            self._under_way.add(name)
        try:
            for _ in range(ROUNDS):
                left = {number: each for number, each in asked.items() if number not in answers}
                if not left:
                    break
                answers |= self._round(left, name)
        except CacheUnavailable as problem:
            why = str(problem)
        except DatabaseUnavailable as problem:
            why = f"the database did not answer: {first_line(problem)}"
        finally:
            with self._lock:
                self._under_way.discard(name)
        for number, request in asked.items():
            answers.setdefault(number, Undecided(request.id, why))
        return answers

    def _round(self, asked: Asked, name: str) -> Answers:
        """The answers that one look at the cache gives; more may be known in the next round."""
        epoch = self._prepared(asked)
        questions, both, cold = _sorted(epoch, asked)
        answers = self._ask_book(cold) if cold else {}
        hot = [*questions.values(), *both.values()]
        if not hot:
            return answers
        with self._lock:
            done, self._done = self._done, []
        decided = self._cache.decide(
            epoch.token, name, hot, remember_seconds=REMEMBER_SECONDS, done=done
        )
        if decided is None:
            self.renew()
            return answers
        self._note_low(decided.left)
        found = dict(zip((*questions, *both), decided.decisions, strict=True))
        try:
            self._settle(epoch, asked, found, set(both), answers)
        except Closed:
            self._after_closed(epoch)
            return answers
        if all(number in answers for number in found):
            with self._lock:
                self._done.append(name)
        return answers

    def _after_closed(self, epoch: Epoch) -> None:
        """The epoch is over. If it is not, the cache has sold more than it was given."""
        if self.epoch(fresh=True).token == epoch.token:
            self._begin(epoch.token, "the cache sold more than was allotted to it")

    def _settle(
        self,
        epoch: Epoch,
        asked: Asked,
        found: Mapping[int, CacheDecision],
        both: set[int],
        answers: Answers,
    ) -> None:
        """Record what was decided. What is missing from the answers is asked again."""
        by = defaultdict[Verdict, list[int]](list)
        for number, decision in found.items():
            by[decision.verdict].append(number)
        if by[Verdict.ABSENT]:
            self.tell()
        again = self._refilled(found, by[Verdict.SHORT])
        for number in by[Verdict.CONFLICT]:
            answers[number] = self._other_body(asked[number], found[number].name)
        recordable = [
            number
            for number in (*by[Verdict.TAKEN], *by[Verdict.KNOWN], *by[Verdict.SHORT])
            if number not in again
        ]
        for number in recordable:
            if number in both:
                answers[number] = self._both(epoch, asked[number], found[number])
        plain = [number for number in recordable if number not in both]
        if plain:
            answers |= self._record(epoch, asked, {number: found[number] for number in plain})

    def _record(self, epoch: Epoch, asked: Asked, found: Mapping[int, CacheDecision]) -> Answers:
        records = {
            number: Record(
                asked[number].id,
                decision.name,
                asked[number].body,
                None if decision.refusal is None else decision.refusal.encode(),
            )
            for number, decision in found.items()
        }
        recorded: Mapping[str, RecordKey] = {}
        booked: set[str] = set()
        now = self._clock.now()
        try:
            self._hot.record(epoch, list(records.values()), now=now)
        except Used:
            recorded, booked = self._hot.record_new(epoch, list(records.values()), now=now)
        answers: Answers = {}
        undone: list[tuple[CacheDecision, Question]] = []
        for number, record in records.items():
            request, decision = asked[number], found[number]
            before = recorded.get(record.id)
            if before is None and record.id not in booked:
                answers[number] = decision.refusal or _made(request, now)
                continue
            is_other = before is None or before.record.decision != record.decision
            if decision.verdict is Verdict.TAKEN and is_other:
                undone.append((decision, question_of(request, epoch.cache_lines(request.lines))))
            answers[number] = self._repeated(request, before)
        for decision, question in undone:
            self._cache.undo(epoch.token, decision.name, [question])
        return answers

    def _repeated(self, request: Deduct, before: RecordKey | None) -> Outcome:
        """The answer to a request whose id was used before."""
        if before is None:
            return self._book.execute([request])[0]
        record = before.record
        if record.body is None:
            return Conflict(request.id, "it was voided before it was made")
        if record.body != request.body:
            return Conflict(request.id, difference(record.body, request.body))
        if record.refusal is not None:
            return decode_refusal(record.refusal)
        return _made(request, before.created_at, replayed=True)

    def _both(self, epoch: Epoch, request: Deduct, decision: CacheDecision) -> Outcome:
        """An order of which the book has a part, and the cache the other."""
        question = question_of(request, epoch.cache_lines(request.lines))
        self._sync_ids([request.id])
        if decision.refusal is not None:
            return self._book.execute([request])[0]
        outcome, is_used = self._hot.deduct_both(epoch, request)
        if not is_used and decision.verdict is Verdict.TAKEN:
            self._cache.undo(epoch.token, decision.name, [question])
        return outcome

    def _other_body(self, request: Deduct, name: str) -> Outcome:
        """The id was taken with another body. That is recorded first, if it is not."""
        epoch = self.epoch()
        pending = [q for q in self._cache.questions_of(epoch.token, name) if q.id == request.id]
        for question in pending:
            self._decide({0: request_of(Record(question.id, name, question.body))}, name_it())
        found, booked = self._hot.known([request.id])
        if request.id in found or request.id in booked:
            return self._repeated(request, found.get(request.id))
        return Undecided(request.id, "the same id is under way with another body")

    def _ask_book(self, asked: Asked) -> Answers:
        """The answers to requests that the cache has no part of."""
        self._sync_ids([request.id for request in asked.values()])
        outcomes = self._book.execute(list(asked.values()))
        return dict(zip(asked, outcomes, strict=True))

    def _sync_ids(self, ids: Sequence[str]) -> None:
        """Have the book know what is recorded under these ids."""
        recorded, _ = self._hot.known(ids)
        batches = {each.batch for each in recorded.values() if each.batch}
        if batches:
            self._syncer.sync(sorted(batches))

    def _prepared(self, asked: Asked) -> Epoch:
        """The epoch, with an allotment of what is refilled and was never allotted."""
        epoch = self.epoch()
        if not self._starts:
            return epoch
        missing = {
            sku
            for request in asked.values()
            for sku in request.lines
            if sku not in epoch.allotments and self._refill(sku)
        }
        return self.epoch() if missing and self.refill(missing) else epoch

    def _refilled(self, found: Mapping[int, CacheDecision], short: Iterable[int]) -> set[int]:
        """Those of these refusals that may be wrong, because more was allotted."""
        skus = {found[number].sku for number in short}
        moved = self.refill(skus) if skus else {}
        return {number for number in short if found[number].sku in moved}

    def _note_low(self, left: Mapping[str, int]) -> None:
        for sku, quantity in left.items():
            if quantity < self._refill(sku) / 2:
                self.low.add(sku)


def _sorted(
    epoch: Epoch, asked: Asked
) -> tuple[dict[int, Question], dict[int, Question], dict[int, Deduct]]:
    """What the cache decides alone, what it decides with the book, and what it does not."""
    alone: dict[int, Question] = {}
    both: dict[int, Question] = {}
    cold: dict[int, Deduct] = {}
    for number, request in asked.items():
        lines = epoch.cache_lines(request.lines)
        if not lines:
            cold[number] = request
        else:
            part = alone if len(lines) == len(request.lines) else both
            part[number] = question_of(request, lines)
    return alone, both, cold


def _made(request: Deduct, now: int, *, replayed: bool = False) -> Deduction:
    """The answer to a deduction that is recorded."""
    status = DeductionStatus.DEDUCTED if request.hold is None else DeductionStatus.HELD
    return Deduction(
        request.id,
        status,
        tuple(DeductionLine(sku, quantity) for sku, quantity in request.lines.items()),
        to_datetime(now),
        None if request.hold is None else to_datetime(now + request.hold),
        replayed=replayed,
    )
