"""The access tokens of a ledger that is served by itself: those in its own database."""

from __future__ import annotations

from windlass.ledger.ledger import Ledger
from windlass.operate.token.operate import Tokens


def tokens_in(ledger: Ledger) -> Tokens:
    """The tokens in the database of `ledger`."""
    return Tokens(ledger.database, ledger.clock, ledger.prepare)
