"""Holds: confirmed in time, or given back by a worker when they lapse."""

import copy

import pytest

from tests.fixture.app import Clock
from tests.wait import eventually
from windlass import App
from windlass.ledger import (
    DeductionStatus,
    Ledger,
    Movement,
    NotHeld,
    OutOfStock,
    UnknownDeduction,
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def app(database_url: str, clock: Clock):
    app = App(database_url, clock=clock)
    yield app
    app.close()


@pytest.fixture
def ledger(database_url: str, clock: Clock):
    ledger = Ledger(database_url, clock=clock)
    ledger.restock("delivery-1", {"bolt": 10, "nut": 10})
    yield ledger
    ledger.close()


def test_what_is_held_is_not_available(ledger):
    held = ledger.deduct("order-7", {"bolt": 8}, hold="15m")

    assert held.status is DeductionStatus.HELD
    assert (held.hold_until - held.created_at).total_seconds() == 900
    with pytest.raises(OutOfStock):
        ledger.deduct("order-8", {"bolt": 3})


def test_a_hold_that_lapses_is_given_back_by_a_worker(ledger, app, clock):
    ledger.deduct("order-7", {"bolt": 8, "nut": 2}, hold="15m")
    ledger.give_back("order-7", "return-1", {"bolt": 3})

    clock.forward("14m")
    app.drain()
    assert ledger.stock("bolt").available == 5
    clock.forward("2m")
    app.drain()

    assert [stock.available for stock in ledger.stocks()] == [10, 10]
    assert ledger.deduction("order-7").status is DeductionStatus.LAPSED
    assert [entry.movement for entry in ledger.entries("bolt")][-1] is Movement.LAPSE
    assert ledger.audit().ok


def test_a_confirmed_hold_stays_deducted(ledger, app, clock):
    ledger.deduct("order-7", {"bolt": 8}, hold="15m")

    first = ledger.confirm("order-7")
    clock.forward("16m")
    app.drain()

    assert ledger.stock("bolt").available == 2
    assert ledger.deduction("order-7").status is DeductionStatus.DEDUCTED
    again = ledger.confirm("order-7")
    assert (again, again.replayed) == (first, True)


def test_a_hold_that_lapsed_cannot_be_confirmed(ledger, app, clock):
    ledger.deduct("order-7", {"bolt": 8}, hold="15m")
    clock.forward("16m")
    app.drain()

    with pytest.raises(NotHeld) as refused:
        ledger.confirm("order-7")

    assert (refused.value.id, refused.value.status) == ("order-7", "lapsed")
    assert ledger.stock("bolt").available == 10


def test_a_confirm_that_comes_before_the_giving_back_is_in_time(ledger, app, clock):
    ledger.deduct("order-7", {"bolt": 8}, hold="15m")
    clock.forward("16m")

    ledger.confirm("order-7")
    app.drain()

    assert ledger.stock("bolt").available == 2


def test_a_voided_hold_is_over(ledger, app, clock):
    ledger.deduct("order-7", {"bolt": 8}, hold="15m")
    ledger.void("order-7")

    with pytest.raises(NotHeld):
        ledger.confirm("order-7")
    clock.forward("16m")
    app.drain()

    assert ledger.deduction("order-7").status is DeductionStatus.VOIDED
    assert ledger.stock("bolt").available == 10


def test_a_deduction_without_a_hold_can_be_confirmed_too(ledger):
    made = ledger.deduct("order-7", {"bolt": 8})

    first = ledger.confirm("order-7")
    ledger.void("order-7")
    again = ledger.confirm("order-7")

    assert first.confirmed_at == made.created_at
    assert first == again
    assert (first.replayed, again.replayed) == (False, True)
    assert ledger.audit().ok


def test_nothing_unknown_can_be_confirmed(ledger):
    with pytest.raises(UnknownDeduction):
        ledger.confirm("order-7")


def test_a_replayed_hold_does_not_lapse_twice(ledger, app, clock):
    ledger.deduct("order-7", {"bolt": 8}, hold="15m")
    ledger.deduct("order-7", {"bolt": 8}, hold="15m")
    clock.forward("16m")

    app.drain()

    assert ledger.stock("bolt").returned == 8
    assert ledger.audit().ok


def test_a_hold_in_one_of_several_databases_lapses(
    database_url, second_database_url, database_engine
):
    app = App(second_database_url, database_url)
    ledger = Ledger(database_url)
    ledger.restock("delivery-1", {"bolt": 10})
    ledger.deduct("order-7", {"bolt": 8}, hold="200ms")

    def is_given_back():
        app.drain()
        return ledger.stock("bolt").available == 10

    eventually(is_given_back)
    app.close()
    ledger.close()


def test_what_was_never_held_is_confirmed_forever(ledger):
    ledger.restock("delivery-9", {"screw": 3})
    ledger.deduct("order-1", {"screw": 1})
    first = ledger.confirm("order-1")
    ledger.void("order-1")

    assert ledger.confirm("order-1") == first


def test_a_refusal_cannot_be_changed(ledger):
    ledger.restock("delivery-9", {"screw": 3})
    with pytest.raises(OutOfStock):
        ledger.deduct("order-1", {"screw": 4})
    refused = ledger.deduction("order-1")

    with pytest.raises(TypeError):
        refused.refusal.facts["wanted"] = 1
    assert hash(refused) == hash(ledger.deduction("order-1"))
    assert copy.copy(refused.refusal) == refused.refusal
