"""What a test may use: the databases that are lent to it. All others are refused, or replaced.

While a loan is open, what would connect elsewhere raises OutsideTest before it connects. Ledgers
and tables that were made with another URL move to a lent database, and back afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

from windlass.errors import OutsideTest

GiveBack = Callable[[], None]


class LentPlace(NamedTuple):
    """A lent database: its URL, and the clock of the test, if it has one."""

    url: str
    clock: Any


class Lendable(Protocol):
    """What has a connection of its own, and can have it elsewhere during a test."""

    def borrow(self, loan: Loan) -> GiveBack | None:
        """Move to a lent database; returns how to move back, or None if it stays."""


@dataclass
class Loan:
    """Which databases and brokers a test may use, by the names that `place_of` gives them."""

    # The name of a real database, and the lent one that stands for it.
    places: dict[str, LentPlace]
    allowed: set[str]
    # Lends one more, for a ledger on a database of its own.
    lend: Callable[[], LentPlace] | None = None
    refused: list[OutsideTest] = field(default_factory=list)
    _given_back: list[GiveBack] = field(default_factory=list)

    def place(self, name: str) -> LentPlace | None:
        """What stands for a real database, lent now if need be; None if it must be refused."""
        if name not in self.places and self.lend is not None:
            loans, LOANS[:] = LOANS[:], []
            try:
                self.places[name] = self.lend()
            finally:
                LOANS[:] = loans
        return self.places.get(name)

    def take(self, each: Lendable) -> None:
        """Move a thing, and remember how it moves back."""
        if (give_back := each.borrow(self)) is not None:
            self._given_back.append(give_back)

    def end(self) -> None:
        """Everything moves back."""
        while self._given_back:
            self._given_back.pop()()

    def check(self, name: str, shown: str) -> None:
        """Raise OutsideTest unless the test may use what has this name."""
        if name not in self.allowed:
            problem = OutsideTest(shown)
            self.refused.append(problem)
            raise problem


# The open loans, the innermost last.
LOANS: list[Loan] = []
# By identity: two that are equal must both move.
MOVABLE: WeakValueDictionary[int, Lendable] = WeakValueDictionary()


def register(each: Lendable) -> None:
    """From now on it moves when a test begins, and now if one is running."""
    MOVABLE[id(each)] = each
    if LOANS:
        LOANS[-1].take(each)


def check(name: Callable[[], str], shown: Callable[[], str]) -> None:
    """Raise OutsideTest if a test is running that may not use what has this name."""
    if LOANS:
        LOANS[-1].check(name(), shown())


def refuse(name: str, shown: str) -> None:
    """Raise OutsideTest if a test is running that may not use what has this name."""
    check(lambda: name, lambda: shown)


def is_refused(name: str) -> bool:
    """Whether a test is running that may not use what has this name."""
    return bool(LOANS) and name not in LOANS[-1].allowed


@contextmanager
def lent(
    places: Mapping[str, LentPlace],
    allowed: set[str],
    *,
    lend: Callable[[], LentPlace] | None = None,
) -> Iterator[Loan]:
    """For the block, only what is `allowed` may be used; `places` stand for real databases.

    Inside another loan, what that one allows is allowed too.
    """
    outer = LOANS[-1].allowed if LOANS else set()
    loan = Loan(dict(places), {*allowed, *outer}, lend)
    LOANS.append(loan)
    try:
        for each in list(MOVABLE.values()):
            loan.take(each)
        yield loan
    finally:
        loan.end()
        LOANS.remove(loan)
