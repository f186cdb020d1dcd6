"""PostgreSQL is killed: what was answered is there, although locks go before the disk has it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from tests.server import PostgreSQL
from windlass.ledger import Ledger, UnknownDeduction
from windlass.ledger.model.book import Book
from windlass.ledger.model.ledger import Deduct


class Lazy(PostgreSQL):
    """Nothing reaches the disk by itself while a test runs: only what a commit waits for."""

    def command(self) -> list[str]:
        return [*super().command(), "-c", "wal_writer_delay=10s"]


@pytest.fixture
def server() -> Iterator[Lazy]:
    with Lazy(fast=False) as server:
        server.create_database("shop")
        yield server


@pytest.fixture
def ledger(server: Lazy) -> Iterator[Ledger]:
    with closing(Ledger(server.url_of("shop"))) as ledger:
        ledger.migrate()
        ledger.restock("delivery-1", {"bolt": 1_000})
        yield ledger


def crash(server: Lazy) -> None:
    server.kill()
    server.start()


def write_early(ledger: Ledger, order: str) -> None:
    """What a process has written that dies before its flush."""
    request = Deduct.of(order, {"bolt": 1}, None)
    book = Book.optimistic([request])
    assert book is not None
    book.apply(request, ledger.clock.now())
    met = ledger.database.single(
        lambda it: ledger._executor._rows.save_if_met(it, book, early=True)
    )
    assert met.is_so


def test_what_a_group_was_answered_survives_a_crash_of_the_server(server, ledger):
    with ThreadPoolExecutor(16) as pool:
        orders = [f"order-{number}" for number in range(96)]
        made = list(pool.map(lambda order: ledger.deduct(order, {"bolt": 1}), orders))

    crash(server)

    assert {ledger.deduction(each.id).id for each in made} == set(orders)
    assert ledger.stock("bolt").available == 1_000 - 96
    assert ledger.audit().problems == ()


def test_what_was_never_answered_may_be_gone_and_is_made_by_asking_again(server, ledger):
    write_early(ledger, "order-1")

    crash(server)

    with pytest.raises(UnknownDeduction):
        ledger.deduction("order-1")
    assert not ledger.deduct("order-1", {"bolt": 1}).replayed
    assert ledger.stock("bolt").available == 999
    assert ledger.audit().problems == ()


@pytest.mark.parametrize("way", ["alone", "joined"])
def test_an_answer_that_is_told_again_is_durable_although_another_wrote_it(server, ledger, way):
    write_early(ledger, "order-1")

    if way == "alone":
        again = ledger.deduct("order-1", {"bolt": 1})
    else:
        with ledger.database.engine.begin() as connection:
            again = ledger.deduct("order-1", {"bolt": 1}, conn=connection)
    assert again.replayed
    crash(server)

    assert ledger.deduction("order-1").lines == again.lines
    assert ledger.audit().problems == ()
