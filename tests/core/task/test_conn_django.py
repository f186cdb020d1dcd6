"""`conn=` with Django's connections, without anything else of Django."""

import pytest
from django.conf import settings
from django.db import transaction
from django.db.transaction import TransactionManagementError
from django.db.utils import ConnectionHandler
from sqlalchemy import make_url

from windlass import App, BadConnection

ENGINES = {"sqlite": "sqlite3", "postgresql": "postgresql", "mysql": "mysql", "mariadb": "mysql"}


@pytest.fixture
def shop(database_url):
    app = App(database_url)

    @app.task(keep="1h")
    def greet(name: str) -> None: ...

    app.greet = greet
    yield app
    app.close()


@pytest.fixture
def connection(database_url, monkeypatch):
    """A connection of Django's to the database of the app."""
    if not settings.configured:
        settings.configure(USE_TZ=True)
    url = make_url(database_url)
    engine = ENGINES[url.get_backend_name()]
    if engine == "mysql":
        import pymysql

        # Django asks for the version of mysqlclient, whose place PyMySQL takes.
        monkeypatch.setattr(pymysql, "version_info", (2, 2, 7, "final", 0))
        pymysql.install_as_MySQLdb()
    connections = ConnectionHandler(
        {
            "default": {
                "ENGINE": f"django.db.backends.{engine}",
                "NAME": url.database,
                "USER": url.username or "",
                "HOST": url.host or "",
                "PORT": url.port or "",
            }
        }
    )
    # Django's own functions find it by its name.
    monkeypatch.setattr(transaction, "get_connection", lambda _using=None: connections["default"])
    yield connections["default"]
    connections.close_all()


def keys(app):
    query = "select task_key from windlass_task order by task_key"
    return [row[0] for row in app.database.read(lambda each: each.exec_driver_sql(query).all())]


@pytest.mark.everywhere
def test_a_task_is_part_of_a_transaction_and_of_its_savepoints(shop, connection):
    with transaction.atomic():
        shop.greet.using(conn=connection, key="kept").enqueue("ada")
        with transaction.atomic():
            shop.greet.using(conn=connection, key="savepoint").enqueue("bob")
            transaction.set_rollback(True)
    with transaction.atomic():
        shop.greet.using(conn=connection, key="dropped").enqueue("eve")
        transaction.set_rollback(True)
    shop.greet.using(conn=connection, key="alone").enqueue("joe")

    assert keys(shop) == ["alone", "kept"]


def test_a_broken_transaction_is_refused_as_django_does(shop, connection):
    with transaction.atomic():
        transaction.set_rollback(True)
        with pytest.raises(TransactionManagementError):
            shop.greet.using(conn=connection).enqueue("ada")


def test_a_connection_to_another_kind_of_server_is_refused(postgresql_url, connection):
    app = App(postgresql_url)

    @app.task
    def greet() -> None: ...

    if connection.vendor != "postgresql":
        with pytest.raises(BadConnection, match="keeps its tasks in postgresql"):
            greet.using(conn=connection).enqueue()
    app.close()
