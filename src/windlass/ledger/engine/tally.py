"""How many movements this process has made in ledgers, for metrics."""

from __future__ import annotations

import threading
from collections import Counter

from windlass.ledger.model.book import Book

# By the name of the movement.
movements: Counter[str] = Counter()
_lock = threading.Lock()


def count(book: Book) -> None:
    """Count what was written: a movement of several products is one, a repeated request none."""
    made = {(entry.movement, entry.reference, entry.return_id) for entry in book.entries}
    with _lock:
        movements.update(movement.value for movement, _, _ in made)
