"""The hot lane: products that thousands want in the same second are sold by a cache.

The book stays the truth. An allotment moves stock from the book to the cache, which decides
deductions; a deduction is answered when its record is on the disk of the book's database, and is
brought into the book by a task. See docs/guide/hot.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from windlass.errors import BadInput, CacheUnavailable, DatabaseUnavailable
from windlass.ledger.cache.client import HotCache
from windlass.ledger.engine.alert import tell_cache
from windlass.ledger.engine.execute import RequestExecutor, answer_of
from windlass.ledger.engine.group import GroupCommit
from windlass.ledger.engine.hot.book import HotBook
from windlass.ledger.engine.hot.decide import HotDecider
from windlass.ledger.engine.hot.keep import HotKeeper, PendingSweeps
from windlass.ledger.engine.hot.sync import Syncer
from windlass.ledger.model.hot import (
    Refill,
    Skus,
    check_lane,
    check_refill,
    hot_test,
    refill_of,
)
from windlass.ledger.model.ledger import (
    Confirmation,
    Deduct,
    Deduction,
    Lines,
    Return,
    Stock,
    check_id,
    check_lines,
)
from windlass.value.duration import Duration
from windlass.value.twin import awaited, twin
from windlass.view.audit import Audit, found

if TYPE_CHECKING:
    from windlass.ledger.ledger import Ledger

CACHE_SECONDS = 2.0


class HotLane:
    """Sells what is allotted to it by a cache, and everything else by the book.

    The calls, their answers and their errors are those of the ledger. One more: NotDecided says
    that it is unknown whether a deduction was made; the same call with the same id tells.
    """

    def __init__(
        self,
        ledger: Ledger,
        url: str,
        *,
        skus: Skus | None = None,
        refill: Refill | None = None,
        name: str = "hot",
        timeout: float = CACHE_SECONDS,
    ) -> None:
        self.name = check_lane(name)
        self.ledger = ledger
        self._is_hot = hot_test(skus)
        amount = check_refill(refill)
        self.cache = HotCache(url, timeout=timeout)
        database, clock = ledger.database, ledger.clock
        self._book = HotBook(database, clock, lane=self.name, cache=self.cache)
        self._syncer = Syncer(database, clock)
        self.decider = HotDecider(
            self._book,
            self.cache,
            RequestExecutor(database, clock),
            self._syncer,
            clock,
            refill=lambda sku: refill_of(amount, sku) if self._is_hot(sku) else 0,
            starts=skus is not None or isinstance(amount, Mapping),
        )
        self._group = GroupCommit(self.decider.execute)
        self._keeper = HotKeeper(self.tick, name=self.name)
        # Not known at first: another process may have raised the alert.
        self._is_away: bool | None = None
        self._sweeps = PendingSweeps(self.decider.sweep)

    # Movements

    def deduct(self, id: str, lines: Lines, *, hold: Duration | None = None) -> Deduction:
        """`Ledger.deduct`: goods go out, all lines or none. It cannot join a transaction."""
        request = Deduct.of(id, lines, hold)
        self._prepare()
        return answer_of(Deduction, self._group.submit(request))

    async def adeduct(self, id: str, lines: Lines, *, hold: Duration | None = None) -> Deduction:
        """`deduct`, awaited."""
        request = Deduct.of(id, lines, hold)
        if not self.ledger.is_prepared:
            await twin(self._prepare)
        self._keeper.touch()
        return answer_of(Deduction, await self._group.asubmit(request))

    def give_back(self, id: str, return_id: str, lines: Lines) -> Return:
        """`Ledger.give_back`: the goods come back to the book, not to the cache."""
        self._sync_id(id)
        return self.ledger.give_back(id, return_id, lines)

    def exchange(self, id: str, exchange_id: str, *, back: Lines, out: Lines) -> Return:
        """`Ledger.exchange`: what goes out is taken from the book."""
        self._sync_id(id)
        return self.ledger.exchange(id, exchange_id, back=back, out=out)

    def void(self, id: str) -> Return:
        """`Ledger.void`: whatever is left comes back to the book; if it is late, it is refused."""
        checked = check_id(id, what="id")
        self._prepare()
        batch, is_new = self._book.void(checked)
        if batch is not None:
            self._syncer.sync([batch])
        voided = self.ledger.void(checked)
        return replace(voided, replayed=False) if is_new else voided

    def confirm(self, id: str) -> Confirmation:
        """`Ledger.confirm`: what is held stays deducted."""
        self._sync_id(id)
        return self.ledger.confirm(id)

    # Queries

    def stock(self, sku: str) -> Stock:
        """How much there is of a SKU: in the book, and in the cache."""
        return self.ledger.stock(sku)

    def deduction(self, id: str) -> Deduction:
        """A deduction as it is now."""
        self._sync_id(id)
        return self.ledger.deduction(id)

    def returns(self, id: str) -> list[Return]:
        """What was given back of a deduction, in order."""
        self._sync_id(id)
        return self.ledger.returns(id)

    def audit(self) -> Audit:
        """`Ledger.audit`, and whether the cache has what the book says; repairs nothing."""
        problems = list(self.ledger.audit().problems)
        problems += self._cache_problems()
        return found(problems)

    # The cache

    def allot(self, lines: Lines) -> dict[str, int]:
        """Move stock from the book to the cache, all lines or none."""
        wanted = check_lines(lines)
        for sku in wanted:
            if not self._is_hot(sku):
                raise BadInput(f"sku {sku!r} is not one of this lane's skus; add it there")
        self._prepare()
        self.decider.epoch()
        moved = self._book.allot(wanted, partly=False)
        self.decider.tell()
        return moved

    def recall(self, *skus: str) -> dict[str, int]:
        """Move what is not sold of these SKUs, or of all, back to the book, which sells them then.

        It needs no cache.
        """
        chosen = [check_id(sku, what="sku") for sku in skus]
        self._prepare()
        self.decider.epoch()
        moved = self._book.recall(chosen or None)
        self.decider.epoch(fresh=True)
        return moved

    def recover(self) -> int:
        """Begin a new epoch with what the book says; returns its number.

        It happens by itself when the cache was restarted, replaced or emptied. Call it if
        somebody else has written into the cache.
        """
        self._prepare()
        self._book.renew(self.decider.epoch(fresh=True).token)
        return self.decider.epoch(fresh=True).number

    def catch_up(self) -> int:
        """Bring all records of this lane into the book, as its task does; how many batches."""
        self._prepare()
        return self._syncer.sync_all(self.name)

    aallot = awaited(allot)
    arecall = awaited(recall)
    arecover = awaited(recover)
    acatch_up = awaited(catch_up)
    agive_back = awaited(give_back)
    aexchange = awaited(exchange)
    avoid = awaited(void)
    aconfirm = awaited(confirm)
    astock = awaited(stock)
    adeduction = awaited(deduction)
    areturns = awaited(returns)
    aaudit = awaited(audit)

    def tick(self) -> None:
        """What happens once a second while the lane is used: see HotKeeper."""
        try:
            self._keep()
        except CacheUnavailable as problem:
            self._tell(str(problem))
            raise
        self._tell(None)

    def _tell(self, problem: str | None) -> None:
        """Raise the alert of the cache when it goes away, and resolve it when it is back."""
        if self._is_away is not (problem is not None):
            self._is_away = problem is not None
            tell_cache(self.ledger.database, self.ledger.clock, self.name, error=problem)

    def _keep(self) -> None:
        self.decider.epoch(fresh=True)
        self.decider.flush()
        low, self.decider.low = self.decider.low, set()
        self.decider.refill(low)
        self._sweeps.look(self.decider.pending())

    def sweep(self) -> int:
        """Record all decisions that nobody has recorded, of living callers too; how many."""
        self._prepare()
        return self._sweeps.look(self.decider.pending(), after=0.0)

    def _cache_problems(self) -> list[str]:
        """Where the cache does not have what the book says. It may be ahead, never behind."""
        before = self.decider.epoch(fresh=True)
        skus = [sku for sku, each in before.allotments.items() if each.is_open]
        places = self.cache.look(before.token, skus) if skus else {}
        after = self.decider.epoch(fresh=True)
        if places is None or after.token != before.token:
            # The next call begins a new epoch with what the book says.
            return []
        return [
            f"hot lane {self.name!r}, sku {sku!r}: the cache has sold {place.sold} of "
            f"{place.limit}, the book knows of {before.allotments[sku].recorded} of "
            f"{after.allotments[sku].quantity}"
            for sku, place in places.items()
            if place.sold < before.allotments[sku].recorded
            or place.limit > after.allotments[sku].quantity
            or place.sold > place.limit
        ]

    def close(self) -> None:
        """End its thread and its connections to the cache. The lane can be used again."""
        self._group.close()
        self._keeper.stop()
        with suppress(CacheUnavailable, DatabaseUnavailable):
            self.decider.flush()
        self.cache.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_problem: object) -> None:
        self.close()

    def _prepare(self) -> None:
        self.ledger.prepare()
        self._keeper.touch()

    def _sync_id(self, id: str) -> None:
        """Have the book know a deduction that is recorded."""
        checked = check_id(id, what="id")
        self._prepare()
        recorded, _ = self._book.known([checked])
        self._syncer.sync([each.batch for each in recorded.values() if each.batch])
