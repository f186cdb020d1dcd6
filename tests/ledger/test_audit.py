"""The audit sees whatever is not as it should be, says it, and repairs nothing."""

import tracemalloc

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError

from windlass.ledger import Ledger, OutOfStock, OverReturn, UnknownDeduction
from windlass.ledger.store import audit as ledger_audit
from windlass.view.audit import Audit


@pytest.fixture
def told(ledger: Ledger) -> Ledger:
    """A ledger in which a bit of everything has happened."""
    ledger.restock("delivery-1", {"bolt": 100, "nut": 100})
    ledger.adjust("count-1", {"bolt": -1})
    ledger.deduct("order-7", {"bolt": 5, "nut": 5})
    ledger.give_back("order-7", "return-1", {"bolt": 2})
    ledger.deduct("order-8", {"bolt": 5})
    ledger.void("order-8")
    ledger.void("order-9")
    with pytest.raises(OutOfStock):
        ledger.deduct("order-10", {"bolt": 1_000})
    with pytest.raises(OverReturn):
        ledger.give_back("order-7", "return-2", {"bolt": 9})
    ledger.restock("delivery-2", {"bolt": 10, "screw": 10})
    ledger.restock("delivery-3", {"screw": 10})
    ledger.adjust("count-2", {"bolt": -10})
    ledger.deduct("held-1", {"screw": 1}, hold="1h")
    ledger.deduct("held-2", {"screw": 1}, hold="1h")
    ledger.confirm("held-2")
    with pytest.raises(OutOfStock):
        ledger.adjust("count-3", {"bolt": -1_000})
    with pytest.raises(UnknownDeduction):
        ledger.give_back("order-11", "return-1", {"bolt": 1})
    assert ledger.audit().problems == ()
    return ledger


def change(ledger: Ledger, statement: str) -> None:
    ledger.database.write(lambda connection: connection.exec_driver_sql(statement))


BROKEN = [
    (
        "update windlass_stock set available = 0, received = 3 where sku = 'bolt'",
        "stock 'bolt': 0 available, but its entries add up to 96",
    ),
    (
        "update windlass_stock set deducted = 11, returned = 8 where sku = 'bolt'",
        "received 99, deducted 11, returned 8, but its entries say 99, 10, 7",
    ),
    ("delete from windlass_stock where sku = 'nut'", "stock 'nut': there are entries"),
    (
        "delete from windlass_stock_entry where movement = 'deduct' and sku = 'nut'",
        "deduction 'order-7', sku 'nut': 5 deducted, but its entries say nothing",
    ),
    (
        "update windlass_stock_entry set quantity = 3 where return_id = 'return-1'",
        "return 'return-1' of deduction 'order-7', sku 'bolt': 2 came back, but its entries say 3",
    ),
    (
        "update windlass_deduction_line set returned = 3 where returned = 2",
        "deduction 'order-7', sku 'bolt': 3 returned, but its returns add up to 2",
    ),
    (
        "update windlass_deduction set status = 3 where id = 'order-7'",
        "deduction 'order-7' is voided, but by its other columns and its returns it is deducted",
    ),
    ("delete from windlass_deduction where id = 'order-7'", "'order-7': there are lines"),
    (
        "delete from windlass_deduction_line where deduction_id = 'order-8'",
        "deduction 'order-8' was made, but it has no lines",
    ),
    (
        "insert into windlass_deduction_line values ('order-10', 'bolt', 1, 0)",
        "deduction 'order-10' was refused, but it has lines",
    ),
    (
        "insert into windlass_return_line values ('order-7', 'return-2', 'bolt', 1)",
        "return 'return-2' of deduction 'order-7' was refused, but it has 1 lines",
    ),
    (
        "delete from windlass_stock_receipt where id = 'delivery-1'",
        "restock 'delivery-1', sku 'nut': nothing came in, but its entries say 100",
    ),
    (
        "delete from windlass_stock_entry where reference = 'count-1'",
        "adjust 'count-1', sku 'bolt': -1 came in, but its entries say nothing",
    ),
    (
        "update windlass_stock_entry set return_id = null where return_id = 'return-1'",
        "return None of deduction 'order-7', sku 'bolt': nothing came back, but its entries say 2",
    ),
    (
        """update windlass_deduction set body = '{"lines":{"bolt":9}}' where id = 'order-7'""",
        "deduction 'order-7': its body is not as its lines are: sku 'bolt' is 9, it was 5",
    ),
    (
        "update windlass_deduction set body = '[]' where id = 'order-7'",
        "deduction 'order-7': its body '[]' is not as the ledger writes it",
    ),
    (
        "update windlass_deduction set body = '[1]' where id = 'order-10'",
        "deduction 'order-10': its body '[1]' is not as the ledger writes it",
    ),
    (
        """update windlass_stock_return set body = '{"lines":{}}' where return_id = 'return-1'
        and deduction_id = 'order-7'""",
        "return 'return-1' of deduction 'order-7': its body is not as its lines are: sku 'bolt'",
    ),
    (
        "update windlass_stock_return set body = '{}' where return_id = 'return-2'",
        "return 'return-2' of deduction 'order-7': its body '{}' is not as the ledger writes it",
    ),
    (
        """update windlass_stock_receipt set body = '{"lines":{"screw":9}}'
        where id = 'delivery-3'""",
        "restock 'delivery-3', sku 'screw': 9 came in, but its entries say 10",
    ),
    (
        "update windlass_stock_receipt set body = '7' where id = 'count-1'",
        "adjust 'count-1': its body '7' is not as the ledger writes it",
    ),
    (
        """update windlass_stock_receipt set refusal = '{"error":"None"}' where id = 'count-3'""",
        "adjust 'count-3': its refusal",
    ),
    (
        "delete from windlass_deduction where id = 'order-9'",
        "return 'windlass:void' of deduction 'order-9' was made, but there is no such deduction",
    ),
    (
        "delete from windlass_stock_return where deduction_id = 'order-9'",
        "deduction 'order-9' was never made, but it was not voided either",
    ),
    (
        "delete from windlass_stock_return where deduction_id = 'order-8'",
        "return 'windlass:void' of deduction 'order-8' was never made, but it has 1 lines",
    ),
    *(
        (
            f"update windlass_deduction set status = {status} where id = '{of}'",
            f"deduction '{of}' is {said}, but by its other columns and its returns it is {right}",
        )
        for of, status, said, right in (
            ("order-8", 1, "deducted", "voided"),
            ("order-7", 2, "refused", "deducted"),
            ("order-7", 9, "of status 9", "deducted"),
            ("order-7", 0, "held", "deducted"),
            ("order-9", 1, "deducted", "voided"),
            ("order-10", 1, "deducted", "refused"),
            ("held-1", 1, "deducted", "held"),
            ("held-1", 4, "lapsed", "held"),
            ("held-2", 0, "held", "deducted"),
        )
    ),
    (
        "update windlass_deduction set hold_until = null where id = 'held-1'",
        "deduction 'held-1' is held, but by its other columns and its returns it is deducted",
    ),
    (
        "update windlass_deduction set hold_until = hold_until + 1 where id = 'held-1'",
        "deduction 'held-1': its body is not as its lines are: hold is",
    ),
    (
        "update windlass_deduction set confirmed_at = 5 where id = 'held-1'",
        "deduction 'held-1' is held, but by its other columns and its returns it is deducted",
    ),
    (
        "update windlass_deduction set confirmed_at = null where id = 'held-2'",
        "deduction 'held-2' is deducted, but by its other columns and its returns it is held",
    ),
    (
        "update windlass_deduction set confirmed_at = 5 where id = 'order-10'",
        "deduction 'order-10' was refused, but it is held or confirmed",
    ),
    (
        "delete from windlass_task where kind = 'windlass:lapse'",
        "deduction 'held-1' is held, but no task will end the hold",
    ),
    (
        "update windlass_task set status = 3 where kind = 'windlass:lapse'",
        "deduction 'held-1' is held, but no task will end the hold",
    ),
    (
        "update windlass_deduction set refusal = null where id = 'order-10'",
        "deduction 'order-10' was made, but it has no lines",
    ),
    (
        "update windlass_stock_return set refusal = null where return_id = 'return-2'",
        "return 'return-2' of deduction 'order-7' was made, but it has no lines",
    ),
    (
        """insert into windlass_stock_return values
        ('none', 'return-1', '{"lines":{"bolt":1}}', null, 1)""",
        "return 'return-1' of deduction 'none' was made, but there is no such deduction",
    ),
    (
        "update windlass_stock_entry set movement = 'return' where movement = 'void'",
        (
            "void 'windlass:void' of deduction 'order-8', sku 'bolt': 5 came back, "
            "but its entries say nothing"
        ),
    ),
    (
        "update windlass_stock_entry set movement = 'adjust' where reference = 'delivery-3'",
        "restock 'delivery-3', sku 'screw': 10 came in, but its entries say nothing",
    ),
    *(
        (
            (
                "insert into windlass_stock_entry (sku, quantity, movement, reference, created_at) "
                f"values ('bolt', 3, '{movement}', '{of}', 1), "
                f"('bolt', -3, '{movement}', '{of}', 1)"
            ),
            words,
        )
        for movement, of, words in (
            ("lost", "order-7", "unknown movement 'lost' of 'order-7', sku 'bolt': nothing moved"),
            ("restock", "delivery-1", "restock 'delivery-1', sku 'bolt': 100 came in"),
            ("deduct", "order-7", "deduction 'order-7', sku 'bolt': 5 deducted"),
        )
    ),
    (
        """update windlass_stock_entry set quantity = case reference when 'delivery-2' then 11
        else 9 end where sku = 'screw' and movement = 'restock'""",
        "restock 'delivery-2', sku 'screw': 10 came in, but its entries say 11",
    ),
    (
        (
            "update windlass_stock_entry set reference = 'order-8' where reference = 'order-7' "
            "and sku = 'bolt' and movement = 'deduct'"
        ),
        "deduction 'order-8', sku 'bolt': 5 deducted, but its entries say 5, 5",
    ),
    (
        "update windlass_stock_return set deduction_id = 'none' where return_id = 'return-2'",
        "return 'return-2' of deduction 'none': its refusal",
    ),
    (
        "update windlass_deduction set confirmed_at = 5 where id = 'order-7'",
        "deduction 'order-7' was never held, but it was confirmed at another time",
    ),
    (
        "update windlass_stock_entry set created_at = 1 where return_id = 'return-1'",
        "return 'return-1' of deduction 'order-7', sku 'bolt': made at 20",
    ),
]


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize(("statement", "words"), BROKEN)
def test_whatever_is_broken_by_hand_is_seen_and_left(told, statement, words):
    change(told, statement)

    found = told.audit()

    assert not found.ok
    assert any(words in problem for problem in found.problems), found.problems
    assert told.audit() == found


REFUSED = [
    "update windlass_stock set available = -1, received = received - 97 where sku = 'bolt'",
    "update windlass_stock set available = available + 1 where sku = 'bolt'",
    "update windlass_stock set returned = 11, received = received - 4 where sku = 'bolt'",
    "update windlass_deduction_line set returned = 6 where sku = 'bolt'",
    "update windlass_deduction_line set returned = -1 where sku = 'bolt'",
    "update windlass_deduction_line set quantity = 0, returned = 0 where sku = 'nut'",
    "update windlass_return_line set quantity = 0",
    "update windlass_stock_entry set quantity = 0",
    "insert into windlass_stock_return values ('order-7', 'return-1', '{}', null, 1)",
    "insert into windlass_return_line values ('order-7', 'return-1', 'bolt', 1)",
]


@pytest.mark.parametrize("statement", REFUSED)
def test_the_database_itself_refuses_what_can_never_be(told, statement):
    with pytest.raises(DBAPIError):
        change(told, statement)

    assert told.audit().ok
    assert told.stock("bolt").available == 96


def test_of_many_rows_that_break_one_rule_the_first_are_told(ledger):
    ledger.restock("delivery-1", {f"sku-{number:03}": 1 for number in range(50)})
    change(ledger, "delete from windlass_stock_entry")

    problems = ledger.audit().problems

    assert len(problems) < 60
    assert sum("and more of this sort" in problem for problem in problems) == 2


@pytest.mark.parametrize("wrong", ["'many'", "1.5"])
def test_a_number_that_is_none_is_told(sqlite_url, wrong):
    ledger = Ledger(sqlite_url)
    ledger.restock("delivery-1", {"bolt": 1})
    change(ledger, f"update windlass_stock_entry set quantity = {wrong}")

    problems = ledger.audit().problems

    assert f"windlass_stock_entry 1: quantity {wrong} is not a whole number" in problems
    ledger.close()


@pytest.mark.parametrize("column", ["sku", "reference", "movement"])
def test_a_text_that_is_none_is_told(sqlite_url, column):
    ledger = Ledger(sqlite_url)
    ledger.restock("delivery-1", {"bolt": 1})
    change(ledger, f"update windlass_stock_entry set {column} = x'ff00'")

    assert f"windlass_stock_entry 1: {column} is not text" in ledger.audit().problems
    ledger.close()


def test_two_entries_that_changed_places_are_told(ledger):
    ledger.restock("delivery-1", {"bolt": 10})
    ledger.deduct("order-1", {"bolt": 1})
    ledger.deduct("order-2", {"bolt": 2})
    change(ledger, "update windlass_stock_entry set quantity = -3 - quantity where quantity < 0")

    assert ledger.audit().problems == (
        "deduction 'order-1', sku 'bolt': 1 deducted, but its entries say 2",
        "deduction 'order-2', sku 'bolt': 2 deducted, but its entries say 1",
    )


def test_the_task_of_a_hold_may_be_elsewhere_when_its_database_is_drained(told):
    change(told, "delete from windlass_task where kind = 'windlass:lapse'")
    change(told, "update windlass_shard set draining = 1")

    assert told.audit().ok


def test_pages_of_any_size_tell_the_same(told, monkeypatch):
    change(told, "delete from windlass_stock_entry where reference = 'order-7'")
    found = told.audit()

    monkeypatch.setattr(ledger_audit, "ROWS", 1)
    monkeypatch.setattr(ledger_audit, "FEW_ROWS", 1)

    assert told.audit() == found


def test_an_audit_needs_no_more_room_for_more_rows(sqlite_url, monkeypatch):
    monkeypatch.setattr(ledger_audit, "ROWS", 100)
    ledger = Ledger(sqlite_url)
    ledger.restock("delivery-1", {"bolt": 10_000})

    def peak(orders: range) -> int:
        ledger.database.write(
            lambda connection: [
                ledger.deduct(f"order-{number}", {"bolt": 1}, conn=connection) for number in orders
            ]
        )
        ledger.audit()
        tracemalloc.start()
        assert ledger.audit()
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    few = peak(range(300))
    many = peak(range(300, 1_500))

    assert many < 1.2 * few
    ledger.close()


def test_no_page_of_an_audit_reads_a_whole_table(told):
    """Not even on PostgreSQL while it has no statistics."""
    if told.database.dialect.name != "postgresql":
        pytest.skip("others plan pages by the index in any case")
    plans: list[str] = []

    def explain(connection: Connection, _cursor: object, statement: str, given: dict, *_: object):
        if " limit " in statement and statement.startswith("select"):
            found = connection.connection.cursor().execute(f"explain {statement}", given)
            plans.append("\n".join(row[0] for row in found))

    event.listen(told.database.engine, "before_cursor_execute", explain)
    told.database.snapshot(lambda it: ledger_audit.problems(it, told.database.dialect))
    event.remove(told.database.engine, "before_cursor_execute", explain)

    assert len(plans) > 6
    assert not [plan for plan in plans if "Seq Scan" in plan or "Sort Key" in plan]


def test_the_caller_keeps_its_own_settings(told):
    if told.database.dialect.name != "postgresql":
        pytest.skip("only PostgreSQL has such settings")

    def work(connection: Connection) -> str:
        connection.exec_driver_sql("set local enable_sort = off")
        assert told.audit(conn=connection)
        shown = "select current_setting('enable_sort') || current_setting('enable_seqscan')"
        return connection.exec_driver_sql(shown).scalar_one()

    assert told.database.write(work) == "offon"


def test_an_audit_waits_for_nobody_who_writes(told):
    def work(connection: Connection) -> Audit:
        told.deduct("order-20", {"bolt": 1}, conn=connection)
        return told.audit()

    assert told.database.write(work).ok


def test_an_audit_is_true_if_nothing_is_wrong():
    assert Audit(ok=True)
    assert not Audit(ok=False, problems=("bolt",))
