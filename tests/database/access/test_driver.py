"""URLs of other drivers: people paste the URL that SQLAlchemy has elsewhere in their program."""

import pytest

from windlass import App, BadDatabase
from windlass.database.database import Database, normalise


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("postgresql+psycopg2://ada@host/shop", "postgresql+psycopg://ada@host/shop"),
        ("postgresql+asyncpg://ada@host/shop", "postgresql+psycopg://ada@host/shop"),
        (
            "postgresql+asyncpg://host/shop?ssl=verify-full&prepared_statement_cache_size=0",
            "postgresql+psycopg://host/shop?sslmode=verify-full",
        ),
        (
            "postgresql+asyncpg://host/shop?ssl=true",
            "postgresql+psycopg://host/shop?sslmode=require",
        ),
        ("postgres+asyncpg://host/shop", "postgresql+psycopg://host/shop"),
        ("postgresql+pg8000://host/shop", "postgresql+psycopg://host/shop"),
        (
            "mysql+mysqldb://ada@host/shop?charset=utf8mb4",
            "mysql+pymysql://ada@host/shop?charset=utf8mb4",
        ),
        ("mysql+asyncmy://ada@host/shop", "mysql+pymysql://ada@host/shop"),
        ("mysql+aiomysql://ada@host/shop", "mysql+pymysql://ada@host/shop"),
        (
            "mysql+mysqlconnector://host/shop?connection_timeout=3&use_pure=true",
            "mysql+pymysql://host/shop?connect_timeout=3",
        ),
        ("mariadb+asyncmy://host/shop", "mariadb+pymysql://host/shop"),
        ("mariadb+mariadbconnector://host/shop", "mariadb+pymysql://host/shop"),
        ("sqlite+aiosqlite:///shop.db", "sqlite:///shop.db"),
        ("sqlite+pysqlite:///shop.db", "sqlite+pysqlite:///shop.db"),
    ],
)
def test_the_url_of_another_driver_means_the_same_database(given, meant):
    assert normalise(given).render_as_string(hide_password=False) == meant


@pytest.mark.parametrize(
    "given",
    ["mysql+pyodbc://ada:secret@dsn", "sqlite+pysqlcipher:///shop.db", "postgresql+other://host"],
)
def test_a_driver_that_means_something_else_is_refused(given):
    with pytest.raises(BadDatabase, match="leave the driver out of the URL") as raised:
        normalise(given)

    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ("postgresql+asyncpg://ada:secret@host/shop?command_timeout=3", "command_timeout"),
        ("mysql+mysqlconnector://ada:secret@host/shop?auth_plugin=x", "auth_plugin"),
        ("postgresql://ada:secret@host/shop?sslmod=require", "sslmod"),
        ("mysql://ada:secret@host/shop?sslca=x", "sslca"),
    ],
)
def test_an_option_that_the_driver_does_not_know_is_refused_by_its_name(given, option):
    with pytest.raises(BadDatabase, match=f"does not know the option '{option}'") as raised:
        Database(given)

    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "driver",
    ["mysqldb", "asyncmy", "aiomysql", "mysqlconnector", "asyncpg", "psycopg2", "aiosqlite"],
)
def test_an_app_works_with_the_url_of_another_driver(
    driver, mariadb_url, postgresql_url, sqlite_url
):
    own = {"asyncpg": postgresql_url, "psycopg2": postgresql_url, "aiosqlite": sqlite_url}
    scheme, _, rest = own.get(driver, mariadb_url).partition("://")
    app = App(f"{scheme}+{driver}://{rest}")

    @app.task
    def work() -> int:
        return 7

    ref = work.enqueue()
    app.drain()

    assert ref.result() == 7
    app.close()


@pytest.mark.parametrize(
    ("mode", "has_tls"), [("VERIFY_IDENTITY", True), ("REQUIRED", True), ("DISABLED", False)]
)
def test_the_modes_of_mysql_are_understood(tls_mariadb, mode, has_tls):
    """As mysqlclient has them in its URLs."""
    url = tls_mariadb.at("mysql", user="root", password="", ssl_ca=tls_mariadb.ca, ssl_mode=mode)
    database = Database(url.replace("mysql://", "mysql+mysqldb://"))

    assert bool(database.read(database.dialect.login).tls) is has_tls
    database.close()


def test_a_mode_that_mysql_does_not_have_is_refused():
    with pytest.raises(BadDatabase, match="ssl_mode=SOME is not one of DISABLED, PREFERRED"):
        Database("mysql://host/shop?ssl_mode=SOME")
