"""`conn=`: a movement that becomes true with the caller's own transaction; and the `a` twins."""

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from tests.core.task.test_conn import WAYS, opened
from windlass import BadConnection, DatabaseUnavailable
from windlass.database.database import normalise
from windlass.ledger import DeductionStatus, Ledger, OutOfStock, Refused, UnknownDeduction

ASYNC_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "postgresql": "postgresql+psycopg",
    "mariadb": "mysql+aiomysql",
    "mysql": "mysql+aiomysql",
}


@pytest.fixture
def stocked(ledger: Ledger) -> Ledger:
    ledger.restock("delivery-1", {"bolt": 10, "nut": 10})
    return ledger


@pytest.fixture
def engine(database_url):
    engine = create_engine(normalise(database_url))
    yield engine
    engine.dispose()


@pytest.mark.parametrize("way", WAYS)
def test_a_movement_becomes_true_when_the_caller_commits(stocked, engine, database_url, way):
    with opened(way, engine, database_url) as conn:
        stocked.deduct("order-7", {"bolt": 4, "nut": 1}, conn=conn)
        stocked.give_back("order-7", "return-1", {"bolt": 1}, conn=conn)
        stocked.restock("delivery-2", {"screw": 3}, conn=conn)
        assert stocked.stock("bolt", conn=conn).available == 7
        assert stocked.deduction("order-7", conn=conn).lines[0].returned == 1
        assert len(stocked.entries("bolt", conn=conn)) == 3
        assert [row.sku for row in stocked.stocks(["screw"], conn=conn)] == ["screw"]
        assert stocked.audit(conn=conn).ok
        assert stocked.stock("bolt").available == 10
        conn.commit()

    assert stocked.stock("bolt").available == 7
    assert stocked.deduct("order-7", {"bolt": 4, "nut": 1}).replayed
    assert stocked.audit().ok


@pytest.mark.parametrize("way", WAYS)
def test_a_movement_is_gone_when_the_caller_rolls_back(stocked, engine, database_url, way):
    with opened(way, engine, database_url) as conn:
        stocked.deduct("order-7", {"bolt": 4}, hold="15m", conn=conn)
        with pytest.raises(OutOfStock):
            stocked.deduct("order-8", {"bolt": 7}, conn=conn)
        conn.rollback()

    assert stocked.stock("bolt").available == 10
    for gone in ("order-7", "order-8"):
        with pytest.raises(UnknownDeduction):
            stocked.deduction(gone)
    tasks = text("select count(*) from windlass_task")
    assert stocked.database.read(lambda connection: connection.scalar(tasks)) == 0


def test_the_callers_own_rows_and_the_movement_are_one(stocked, engine):
    with engine.begin() as conn:
        conn.execute(text("create table if not exists shop_order (id varchar(20))"))
    with engine.begin() as conn:
        conn.execute(text("insert into shop_order values ('order-7')"))
        stocked.deduct("order-7", {"bolt": 4}, conn=conn)

    assert stocked.stock("bolt").available == 6


@pytest.mark.parametrize("verb", ["confirm", "deduct", "give_back"])
def test_what_another_writes_meanwhile_is_not_overlooked(stocked, engine, database_url, verb):
    """The reader of a transaction that was begun long ago knows what is true now, or is told."""
    stocked.deduct("held", {"bolt": 6}, hold="15m")
    calls = {
        "confirm": lambda conn: stocked.confirm("held", conn=conn),
        "deduct": lambda conn: stocked.deduct("order-7", {"bolt": 5}, conn=conn),
        "give_back": lambda conn: stocked.give_back("held", "return-1", {"bolt": 1}, conn=conn),
    }
    with engine.connect() as conn:
        conn.execute(text("select * from windlass_stock")).fetchall()
        stocked.void("held")
        stocked.deduct("other", {"bolt": 6})

        with pytest.raises((Refused, DBAPIError, DatabaseUnavailable)):
            calls[verb](conn)
        conn.rollback()

    assert stocked.stock("bolt").available == 4
    assert stocked.audit().ok


def test_nobody_writes_between_what_a_joined_call_reads_and_what_it_writes(stocked, engine):
    """SQLite lets readers in together; a call that has read must be the next to write."""
    with engine.connect() as conn, engine.connect() as other:
        if stocked.database.dialect.is_embedded:
            other.exec_driver_sql("pragma busy_timeout = 0")
            stocked._executor._rows.save = lambda *_: write(other)

            with pytest.raises(DatabaseUnavailable):
                stocked.deduct("order-7", {"bolt": 1}, conn=conn)


def write(connection) -> None:
    connection.execute(text("update windlass_stock set sku = sku"))


def test_two_who_join_at_the_same_moment_with_new_ids_do_not_block_each_other(stocked, engine):
    with engine.connect() as one, engine.connect() as two:
        if stocked.database.dialect.is_embedded:
            pytest.skip("SQLite lets one in at a time")
        stocked.deduct("order-7", {"bolt": 1}, conn=one)
        stocked.deduct("order-8", {"nut": 1}, conn=two)
        stocked.give_back("order-7", "return-1", {"bolt": 1}, conn=one)
        stocked.give_back("order-8", "return-1", {"nut": 1}, conn=two)
        stocked.void("order-9", conn=one)
        stocked.void("order-10", conn=two)
        one.commit()
        two.commit()

    assert [row.available for row in stocked.stocks()] == [10, 10]
    assert stocked.audit().ok


def test_two_who_join_with_the_same_new_id_are_told_to_do_it_again(stocked, engine):
    if stocked.database.dialect.is_embedded:
        pytest.skip("SQLite lets one in at a time")
    with engine.connect() as conn:
        conn.execute(text("select * from windlass_deduction")).fetchall()
        if engine.dialect.name == "postgresql":
            conn.rollback()
            conn.execution_options(isolation_level="REPEATABLE READ")
            conn.execute(text("select * from windlass_deduction")).fetchall()
        stocked.deduct("order-7", {"bolt": 1})

        with pytest.raises(DatabaseUnavailable, match="do it again"):
            stocked.deduct("order-7", {"nut": 1}, conn=conn)
        conn.rollback()

    assert stocked.audit().ok


@pytest.mark.parametrize("way", ["Connection", "raw"])
def test_a_connection_without_a_transaction_is_refused(stocked, engine, database_url, way):
    alone = engine.execution_options(isolation_level="AUTOCOMMIT")
    with opened(way, alone, database_url) as conn:
        if way == "raw":
            commit_alone(conn)

        with pytest.raises(BadConnection, match="commits each statement by itself"):
            stocked.deduct("order-7", {"bolt": 1}, conn=conn)

    assert stocked.stock("bolt").available == 10
    with pytest.raises(UnknownDeduction):
        stocked.deduction("order-7")


def commit_alone(raw) -> None:
    match type(raw).__module__.split(".")[0]:
        case "sqlite3":
            raw.isolation_level = None
        case "psycopg":
            raw.autocommit = True
        case _:
            raw.autocommit(True)


def test_a_connection_to_a_database_without_our_tables_is_refused(stocked, empty_database_url):
    with opened("raw", None, empty_database_url) as conn:
        with pytest.raises(BadConnection, match="has no Windlass tables"):
            stocked.deduct("order-7", {"bolt": 1}, conn=conn)
        conn.rollback()
        with pytest.raises(BadConnection, match="has no Windlass tables"):
            stocked.stock("bolt", conn=conn)
        conn.rollback()

    assert stocked.audit().ok


def test_what_is_not_a_connection_is_refused(stocked):
    with pytest.raises(BadConnection):
        stocked.deduct("order-7", {"bolt": 1}, conn=object())


async def test_an_async_connection_is_joined_too(stocked, database_engine, database_url):
    url = normalise(database_url).set(drivername=ASYNC_DRIVERS[database_engine])
    engine = create_async_engine(url.difference_update_query(["ssl_disabled"]))
    async with engine.connect() as conn:
        await stocked.adeduct("order-7", {"bolt": 4}, conn=conn)
        assert (await stocked.astock("bolt", conn=conn)).available == 6
        await conn.rollback()
        await stocked.adeduct("order-8", {"bolt": 3}, conn=conn)
        await conn.commit()
    await engine.dispose()

    assert (await stocked.astock("bolt")).available == 7


async def test_every_call_has_a_twin(stocked):
    await stocked.arestock("delivery-2", {"bolt": 5})
    await stocked.aadjust("count-1", {"bolt": -1}, reason="counted")
    await stocked.adeduct("order-7", {"bolt": 4}, hold="15m")
    await stocked.aconfirm("order-7")
    await stocked.agive_back("order-7", "return-1", {"bolt": 1})
    await stocked.avoid("order-7")

    assert (await stocked.astock("bolt")).available == 14
    assert len(await stocked.astocks()) == 2
    assert (await stocked.adeduction("order-7")).status is DeductionStatus.VOIDED
    assert len(await stocked.areturns("order-7")) == 2
    assert len(await stocked.aentries("bolt")) == 6
    assert (await stocked.aaudit()).ok


def test_a_ledger_can_connect_as_an_engine_of_its_users_does(database_url, engine):
    ledger = Ledger(engine)

    ledger.restock("delivery-1", {"bolt": 10})
    ledger.deduct("order-7", {"bolt": 4})

    assert ledger.stock("bolt").available == 6
    assert ledger.audit().ok
    ledger.close()


def test_an_engine_that_commits_each_statement_by_itself_is_told_otherwise(stocked, engine):
    alone = create_engine(engine.url, isolation_level="AUTOCOMMIT")
    ledger = Ledger(alone)

    with pytest.raises(ZeroDivisionError):
        ledger.database.write(lambda connection: (write_one(connection), 1 / 0))

    assert stocked.stock("bolt").available == 10
    ledger.close()
    alone.dispose()


def write_one(connection) -> None:
    connection.execute(text("update windlass_stock set available = 9, deducted = 1"))
