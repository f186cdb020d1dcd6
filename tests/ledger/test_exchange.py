"""Exchange: a part of a deduction comes back and other goods go out for it, in one movement."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from sqlalchemy import create_engine, text

from tests.ledger.test_race import crowd
from windlass.database.database import normalise
from windlass.errors import BadInput, DatabaseUnavailable
from windlass.ledger import (
    DeductionLine,
    DeductionStatus,
    IdConflict,
    InvalidQuantity,
    Ledger,
    Line,
    Movement,
    OutOfStock,
    OverReturn,
    Refused,
    UnknownDeduction,
    UnknownSku,
)


@pytest.fixture
def ordered(ledger: Ledger) -> Ledger:
    """A ledger with one order."""
    ledger.restock("delivery-1", {"bolt": 10, "nut": 3})
    ledger.deduct("order-7", {"bolt": 2})
    return ledger


def available(ledger: Ledger) -> dict[str, int]:
    return {stock.sku: stock.available for stock in ledger.stocks()}


@pytest.mark.everywhere
def test_one_product_comes_back_and_another_goes_out(ordered):
    made = ordered.exchange("order-7", "exchange-1", back={"bolt": 1}, out={"nut": 2})

    assert (made.lines, made.out) == ((Line("bolt", 1),), (Line("nut", 2),))
    assert available(ordered) == {"bolt": 9, "nut": 1}
    assert ordered.deduction("order-7").lines == (
        DeductionLine("bolt", 2, 1),
        DeductionLine("nut", 2, 0),
    )
    assert ordered.returns("order-7") == [made]
    entry = ordered.entries("nut")[-1]
    assert (entry.quantity, entry.movement) == (-2, Movement.EXCHANGE)
    assert (entry.reference, entry.return_id) == ("order-7", "exchange-1")
    assert ordered.audit().problems == ()


@pytest.mark.everywhere
def test_an_exchange_that_is_repeated_counts_once(ordered):
    first = ordered.exchange("order-7", "exchange-1", back={"bolt": 1}, out={"nut": 1})
    again = ordered.exchange("order-7", "exchange-1", back={"bolt": 1}, out={"nut": 1})

    assert (again, again.replayed, first.replayed) == (first, True, False)
    assert available(ordered) == {"bolt": 9, "nut": 2}
    with pytest.raises(IdConflict) as conflict:
        ordered.exchange("order-7", "exchange-1", back={"bolt": 1}, out={"nut": 2})
    assert conflict.value.difference == "out, sku 'nut' is 2, it was 1"
    with pytest.raises(IdConflict):
        ordered.give_back("order-7", "exchange-1", {"bolt": 1})


@pytest.mark.everywhere
def test_what_went_out_can_be_given_back_exchanged_and_voided(ordered):
    ordered.exchange("order-7", "exchange-1", back={"bolt": 1}, out={"nut": 2})

    ordered.give_back("order-7", "return-1", {"nut": 1})
    ordered.exchange("order-7", "exchange-2", back={"nut": 1}, out={"bolt": 3})
    assert ordered.deduction("order-7").lines == (
        DeductionLine("bolt", 5, 1),
        DeductionLine("nut", 2, 2),
    )
    voided = ordered.void("order-7")

    assert voided.lines == (Line("bolt", 4),)
    assert available(ordered) == {"bolt": 10, "nut": 3}
    assert ordered.audit().problems == ()


@pytest.mark.everywhere
@pytest.mark.parametrize(
    ("back", "out", "refused"),
    [
        ({"bolt": 3}, {"nut": 1}, OverReturn("bolt", 3, 2)),
        ({"nut": 1}, {"bolt": 1}, OverReturn("nut", 1, 0)),
        ({"bolt": 1}, {"nut": 4}, OutOfStock("nut", 4, 3)),
        ({"bolt": 1}, {"bolt": 1, "nut": 4}, OutOfStock("nut", 4, 3)),
        ({"bolt": 1}, {"screw": 1}, UnknownSku("screw")),
    ],
)
def test_a_refused_exchange_changes_nothing_and_stays_refused(ordered, back, out, refused):
    before = ordered.deduction("order-7")

    for _ in range(2):
        with pytest.raises(type(refused)) as problem:
            ordered.exchange("order-7", "exchange-1", back=back, out=out)
        assert problem.value.facts == refused.facts

    assert available(ordered) == {"bolt": 8, "nut": 3}
    assert ordered.deduction("order-7") == before
    assert ordered.returns("order-7") == []
    assert ordered.audit().problems == ()


def test_of_an_unknown_or_ended_deduction_nothing_is_exchanged(ordered):
    ordered.void("order-7")

    with pytest.raises(UnknownDeduction):
        ordered.exchange("order-8", "exchange-1", back={"bolt": 1}, out={"nut": 1})
    with pytest.raises(OverReturn):
        ordered.exchange("order-7", "exchange-1", back={"bolt": 1}, out={"nut": 1})

    assert available(ordered) == {"bolt": 10, "nut": 3}
    assert ordered.audit().problems == ()


def test_the_same_product_may_come_back_and_go_out(ordered):
    ordered.deduct("order-8", {"bolt": 8})

    ordered.exchange("order-7", "broken-1", back={"bolt": 1}, out={"bolt": 1})

    assert available(ordered) == {"bolt": 0, "nut": 3}
    assert ordered.deduction("order-7").lines == (DeductionLine("bolt", 3, 1),)
    assert ordered.audit().problems == ()


@pytest.mark.parametrize("part", ["back", "out"])
def test_what_is_malformed_uses_no_id(ordered, part):
    right = {"back": {"bolt": 1}, "out": {"nut": 1}}

    with pytest.raises(BadInput, match=f"no {part}"):
        ordered.exchange("order-7", "exchange-1", **right | {part: {}})
    with pytest.raises(InvalidQuantity):
        ordered.exchange("order-7", "exchange-1", **right | {part: {"nut": -1}})

    assert not ordered.exchange("order-7", "exchange-1", **right).replayed


@pytest.mark.everywhere
def test_what_an_exchange_adds_to_a_hold_is_held_and_confirmed_with_it(ordered):
    ordered.deduct("order-8", {"bolt": 1}, hold="15m")

    ordered.exchange("order-8", "exchange-1", back={"bolt": 1}, out={"nut": 1})

    assert ordered.deduction("order-8").status is DeductionStatus.HELD
    ordered.confirm("order-8")
    assert ordered.deduction("order-8").lines == (
        DeductionLine("bolt", 1, 1),
        DeductionLine("nut", 1, 0),
    )
    assert ordered.audit().problems == ()


@pytest.mark.everywhere
async def test_awaited_and_in_one_group_with_others(ordered):
    made = await asyncio.gather(
        ordered.adeduct("order-8", {"bolt": 1}),
        ordered.aexchange("order-7", "exchange-1", back={"bolt": 1}, out={"nut": 1}),
        ordered.agive_back("order-7", "return-1", {"bolt": 1}),
    )

    assert made[1].out == (Line("nut", 1),)
    assert available(ordered) == {"bolt": 9, "nut": 2}
    assert ordered.audit().problems == ()


# The caller's transaction


@pytest.mark.everywhere
def test_it_joins_the_transaction_of_the_caller(ordered, database_url):
    engine = create_engine(normalise(database_url))
    with engine.connect() as connection, connection.begin() as transaction:
        ordered.exchange("order-7", "exchange-1", back={"bolt": 1}, out={"nut": 1}, conn=connection)
        transaction.rollback()
    assert available(ordered) == {"bolt": 8, "nut": 3}

    with engine.begin() as connection:
        ordered.exchange("order-7", "exchange-1", back={"bolt": 1}, out={"nut": 1}, conn=connection)
        ordered.give_back("order-7", "return-1", {"nut": 1}, conn=connection)

    engine.dispose()
    assert available(ordered) == {"bolt": 9, "nut": 3}
    assert ordered.audit().problems == ()


@pytest.mark.everywhere
@pytest.mark.parametrize("verb", ["void", "give_back"])
def test_a_transaction_that_began_before_an_exchange_does_not_miss_its_goods(
    server_url, second_ledger, verb
):
    with closing(Ledger(server_url)) as ledger:
        ledger.restock("delivery-1", {"bolt": 10, "nut": 3})
        ledger.deduct("order-7", {"bolt": 2})
        engine = ledger.database.engine.execution_options(isolation_level="REPEATABLE READ")
        try:
            with engine.begin() as connection:
                connection.execute(text("select count(*) from windlass_deduction_line")).all()
                second_ledger(server_url).exchange(
                    "order-7", "exchange-1", back={"bolt": 1}, out={"nut": 2}
                )
                if verb == "void":
                    ledger.void("order-7", conn=connection)
                else:
                    ledger.give_back("order-7", "return-1", {"nut": 2}, conn=connection)
        except DatabaseUnavailable:
            # PostgreSQL and newer MariaDB say so instead; the caller does it again.
            assert available(ledger) == {"bolt": 9, "nut": 1}
        else:
            assert available(ledger)["nut"] == 3
        assert ledger.audit().problems == ()


@pytest.fixture
def second_ledger():
    made: list[Ledger] = []

    def make(url: str) -> Ledger:
        made.append(Ledger(url))
        return made[-1]

    yield make
    for each in made:
        each.close()


# Races


@pytest.mark.everywhere
def test_exchanges_of_many_threads_never_move_more_than_there_is(ledger, database_url):
    ledger.restock("delivery-1", {"bolt": 100, "nut": 5})
    ledger.deduct("order", {"bolt": 8})
    rivals = [Ledger(database_url) for _ in range(3)]

    def move(number: int) -> str:
        rival = rivals[number % 3]
        try:
            if number % 8 == 7:
                rival.give_back("order", f"return-{number}", {"nut": 1})
            else:
                rival.exchange("order", f"exchange-{number}", back={"bolt": 1}, out={"nut": 1})
        except Refused as problem:
            return type(problem).__name__
        return "done"

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(move, range(24)))
    for rival in rivals:
        rival.close()

    bolt, nut = (ledger.stock(sku) for sku in ("bolt", "nut"))
    exchanged = sum(answer == "done" for number, answer in enumerate(answers) if number % 8 != 7)
    back = sum(answer == "done" for number, answer in enumerate(answers) if number % 8 == 7)
    assert set(answers) <= {"done", "OverReturn", "OutOfStock"}
    assert 5 <= exchanged <= 8
    assert bolt.available == 92 + exchanged
    assert nut.available == 5 - exchanged + back >= 0
    assert ledger.audit().problems == ()


@pytest.mark.mostly("mariadb")
def test_exchanges_of_many_processes_that_race_with_a_void_leave_nothing_out(ledger, database_url):
    ledger.restock("delivery-1", {"bolt": 100, "nut": 100})
    ledger.deduct("order", {"bolt": 50})

    answers = crowd("race", database_url, 12, "exchange_or_void")

    assert set(answers) <= {"done", "OverReturn"}
    assert available(ledger) == {"bolt": 100, "nut": 100}
    assert ledger.deduction("order").status is DeductionStatus.VOIDED
    assert ledger.audit().problems == ()


@pytest.mark.mostly("postgresql")
def test_one_id_used_by_many_processes_exchanges_once(ledger, database_url):
    ledger.restock("delivery-1", {"bolt": 100, "nut": 100})
    ledger.deduct("order", {"bolt": 8})

    answers = crowd("race", database_url, 8, "same_exchange")

    assert set(answers) == {"done"}
    assert available(ledger) == {"bolt": 93, "nut": 99}
    assert ledger.audit().problems == ()


@pytest.mark.mostly("postgresql")
def test_an_exchange_that_is_killed_anywhere_and_made_again_has_one_effect(ledger, database_url):
    ledger.restock("delivery-1", {"bolt": 1_000, "nut": 1_000})
    ledger.deduct("order", {"bolt": 500})

    answers = crowd("kill", database_url, "exchange")

    assert len(answers) >= 6
    assert set(answers) == {"done"}
    times = len(answers) + 1
    assert available(ledger) == {"bolt": 500 + times, "nut": 1_000 - times}
    assert ledger.audit().problems == ()


# The audit


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "delete from windlass_stock_entry where movement = 'exchange' and quantity < 0",
            "exchange 'exchange-1' of deduction 'order-7', sku 'nut'",
        ),
        (
            "update windlass_deduction_line set quantity = 3 where sku = 'nut'",
            "deduction 'order-7': its body is not as its lines are: sku 'nut'",
        ),
        (
            "delete from windlass_deduction_line where sku = 'nut'",
            "deduction 'order-7', sku 'nut': 1 went out in exchange, without a line",
        ),
        (
            """update windlass_stock_return set body = '{"lines":{"bolt":1}}'""",
            "return 'exchange-1' of deduction 'order-7', sku 'bolt'",
        ),
        (
            """update windlass_stock_return set body = '{"lines":{"bolt":1},"out":{"nut":2}}'""",
            "'order-7': its body is not as its lines are: sku 'nut' is missing, it was -1",
        ),
    ],
)
@pytest.mark.mostly("sqlite")
def test_the_audit_sees_an_exchange_that_was_tampered_with(ordered, statement, said):
    ordered.exchange("order-7", "exchange-1", back={"bolt": 1}, out={"nut": 1})
    assert ordered.audit().problems == ()

    ordered.database.write(lambda connection: connection.exec_driver_sql(statement))

    assert said in "\n".join(ordered.audit().problems)
