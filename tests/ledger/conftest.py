"""A ledger on a clean database of each engine."""

from collections.abc import Iterator

import pytest

from windlass.ledger import Ledger


@pytest.fixture
def ledger(database_url: str) -> Iterator[Ledger]:
    ledger = Ledger(database_url)
    yield ledger
    ledger.close()
