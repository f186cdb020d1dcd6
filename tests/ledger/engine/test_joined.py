"""`conn=`: what a caller's transaction is spared when something goes wrong, or comes beside it."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from sqlalchemy import create_engine, text

from windlass import BadConnection, DatabaseUnavailable
from windlass.database.database import normalise
from windlass.ledger import Ledger, OverReturn, UnknownDeduction, UnknownSku


@pytest.fixture
def engine(database_url):
    """Somebody else's, as its driver comes."""
    engine = create_engine(normalise(database_url))
    yield engine
    engine.dispose()


def test_a_call_that_fails_half_way_leaves_nothing_in_the_callers_transaction(
    ledger, engine, monkeypatch
):
    ledger.restock("delivery-1", {"bolt": 10})
    insert = ledger.database.dialect.insert

    def fail(*_given):
        raise RuntimeError("cut")

    with engine.connect() as connection, connection.begin():
        ledger.restock("delivery-2", {"bolt": 1}, conn=connection)
        monkeypatch.setattr(ledger.database.dialect, "insert", fail)
        with pytest.raises(RuntimeError):
            ledger.deduct("order-1", {"bolt": 4}, hold="1h", conn=connection)
        monkeypatch.setattr(ledger.database.dialect, "insert", insert)
        # Who commits all the same commits what was there before.
        ledger.deduct("order-2", {"bolt": 2}, conn=connection)

    assert ledger.stock("bolt").available == 9
    with pytest.raises(UnknownDeduction):
        ledger.deduction("order-1")
    assert ledger.audit().ok


def test_an_id_that_others_use_at_the_same_moment_leaves_nothing_half_done(
    ledger, engine, database_engine, monkeypatch
):
    if database_engine == "sqlite":
        pytest.skip("SQLite lets one in at a time")
    ledger.restock("delivery-1", {"bolt": 10})
    load = ledger._executor._rows.load_joined

    def late(executor, request):
        book = load(executor, request)
        if request.id == "order-1":
            ledger.restock("other", {"nut": 1})
            with engine.begin() as other:
                other.execute(
                    text(
                        "insert into windlass_deduction (id, status, body, created_at) "
                        "values ('order-1', 1, '{}', 1)"
                    )
                )
        return book

    monkeypatch.setattr(ledger._executor._rows, "load_joined", late)
    with (
        engine.connect() as connection,
        connection.begin(),
        pytest.raises(DatabaseUnavailable, match="do it again"),
    ):
        ledger.deduct("order-1", {"bolt": 4}, conn=connection)

    assert ledger.stock("bolt").available == 10


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
def test_what_came_after_the_callers_moment_is_not_refused_forever(
    ledger, engine, database_engine, level
):
    if database_engine == "sqlite":
        pytest.skip("SQLite lets one in at a time")
    ledger.restock("delivery-1", {"bolt": 10})

    with engine.execution_options(isolation_level=level).connect() as connection:
        connection.execute(text("select * from windlass_stock")).fetchall()
        ledger.deduct("order-1", {"bolt": 4})
        try:
            ledger.give_back("order-1", "return-1", {"bolt": 1}, conn=connection)
            connection.commit()
        except DatabaseUnavailable:
            assert level == "REPEATABLE READ"

    assert ledger.give_back("order-1", "return-1", {"bolt": 1}).lines[0].quantity == 1
    assert ledger.audit().ok


def void(ledger, conn) -> None:
    ledger.void("order-7", conn=conn)


def restock(ledger, conn) -> None:
    ledger.restock("new", {"zinc": 1}, conn=conn)


def deduct_unknown(ledger, conn) -> None:
    with pytest.raises(UnknownSku):
        ledger.deduct("order-5", {"zinc": 1}, conn=conn)


def give_back_another(ledger, conn) -> None:
    with pytest.raises(OverReturn):
        ledger.give_back("order-7", "return-1", {"washer": 1}, conn=conn)


@pytest.mark.parametrize("call", [void, restock, deduct_unknown, give_back_another])
def test_a_joined_call_keeps_nobody_from_writing_beside_it(ledger, engine, database_engine, call):
    if database_engine == "sqlite":
        pytest.skip("SQLite lets one in at a time")
    ledger.restock("delivery-1", {"bolt": 10, "nut": 10, "washer": 10})
    ledger.deduct("order-7", {"bolt": 4})

    with engine.connect() as connection, connection.begin():
        call(ledger, connection)
        with ThreadPoolExecutor(2) as threads:
            beside = threads.submit(ledger.deduct, "order-8", {"nut": 1})
            fresh = threads.submit(ledger.restock, "delivery-2", {"zebra": 1})
            # Neither has to wait for the end of this transaction.
            assert beside.result(timeout=30).id == "order-8"
            assert fresh.result(timeout=30).id == "delivery-2"

    assert ledger.audit().ok


def test_tables_cannot_be_made_beside_a_transaction_on_sqlite(tmp_path):
    url = f"sqlite:///{tmp_path / 'fresh.db'}"
    engine = create_engine(url)
    with closing(Ledger(url)) as ledger, engine.begin() as connection:
        connection.execute(text("create table mine (id integer)"))
        connection.execute(text("insert into mine values (1)"))
        with pytest.raises(BadConnection, match=r"call ledger.migrate\(\) before"):
            ledger.restock("delivery-1", {"bolt": 1}, conn=connection)
    engine.dispose()
