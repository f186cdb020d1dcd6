"""Unix sockets, services and files of the drivers: everything that libpq and PyMySQL read."""

import os
from urllib.parse import quote, urlencode

import pytest

from tests.core.run.working import working
from tests.server.tls import PASSWORD, USER
from tests.wait import eventually
from windlass import App
from windlass.database.database import Database
from windlass.ledger import Ledger

STRANGE = "we%ird näme/of@a:shop?"


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    """A home without files, and no variable of libpq."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture(params=["shop", STRANGE])
def name(request, tls_server):
    tls_server.create_database(request.param)
    yield request.param
    tls_server.drop_database(request.param)


def by_socket(server, name, **options):
    """The URL of a database by the server's socket."""
    if server.scheme == "mysql":
        where = {"unix_socket": str(server.socket)}
    else:
        where = {"host": str(server.directory), "port": str(server.port)}
    place = f"{server.scheme}://{USER}:{quote(PASSWORD, safe='')}@/{quote(name, safe='')}"
    return f"{place}?{urlencode({**where, **options})}"


def test_an_app_works_by_a_socket(tls_server, name):
    app = App(by_socket(tls_server, name))
    app.migrate()
    ran = []

    @app.task
    def note(number: int) -> None:
        ran.append(number)

    with working(app):
        note.enqueue(7)
        eventually(lambda: ran == [7], what="the task")

    assert app.database.read(_database_of(tls_server)) == name
    assert app.database.read(app.database.dialect.login).tls is None
    app.close()


def test_a_socket_needs_no_tls_also_if_a_ca_is_named(tls_server, name, monkeypatch):
    monkeypatch.setenv("WINDLASS_DATABASE_CA", tls_server.ca)

    ledger = Ledger(by_socket(tls_server, name))
    ledger.migrate()

    assert ledger.restock("delivery-1", {"bolt": 1})
    assert ledger.database.read(ledger.database.dialect.login).tls is None
    ledger.close()


def test_the_name_of_a_database_by_a_socket_has_no_secret(tls_server, name):
    database = Database(by_socket(tls_server, name))

    assert PASSWORD not in database.name
    assert quote(PASSWORD, safe="") not in database.name
    assert quote(str(tls_server.directory), safe="") in database.name


def _database_of(server):
    asked = "database()" if server.scheme == "mysql" else "current_database()"
    return lambda connection: connection.exec_driver_sql(f"select {asked}").scalar_one()


def test_the_driver_may_be_named(tls_mariadb):
    tls_mariadb.create_database("named")
    url = by_socket(tls_mariadb, "named").replace("mysql://", "mysql+pymysql://")

    database = Database(url)

    assert database.read(database.dialect.login).user == f"{USER}@localhost"
    database.close()


# libpq: services, passwords in files, variables


@pytest.fixture
def shop(tls_postgresql):
    tls_postgresql.create_database("shop")
    yield tls_postgresql
    tls_postgresql.drop_database("shop")


def works(url):
    """A whole app works: its own connections, the heartbeat's and the listener's."""
    app = App(url)
    app.migrate()
    ran = []

    @app.task
    def note(number: int) -> None:
        ran.append(number)

    with working(app):
        note.enqueue(7)
        eventually(lambda: ran == [7], what="the task")
    link = app.database.read(app.database.dialect.login)
    app.close()
    return link


def write_service(server, folder, **more):
    fields = {"host": "127.0.0.1", "port": server.port, "dbname": "shop", "user": USER, **more}
    lines = [f"{name}={value}" for name, value in fields.items()]
    file = folder / "services.conf"
    file.write_text("\n".join(["[jobs]", *lines, ""]))
    return file


@pytest.mark.parametrize("url", ["postgresql:///?service=jobs", "postgresql://?service=jobs"])
def test_a_service_is_named_in_the_url(shop, home, monkeypatch, url):
    file = write_service(shop, home, password=PASSWORD, sslmode="verify-full", sslrootcert=shop.ca)
    monkeypatch.setenv("PGSERVICEFILE", str(file))

    link = works(url)

    assert link.user == USER
    assert link.tls


def test_a_service_is_named_by_the_environment(shop, home, monkeypatch):
    file = write_service(shop, home, password=PASSWORD)
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    monkeypatch.setenv("PGSERVICE", "jobs")

    assert works("postgresql://").user == USER


def test_the_password_is_in_pgpass(shop, home):
    file = home / ".pgpass"
    escaped = PASSWORD.replace(":", "\\:")
    file.write_text(f"127.0.0.1:{shop.port}:shop:{USER}:{escaped}\n")
    file.chmod(0o600)

    assert works(f"postgresql://{USER}@127.0.0.1:{shop.port}/shop?ca={shop.ca}").tls


def test_libpq_reads_its_own_variables(shop, monkeypatch):
    variables = {
        "PGHOST": "127.0.0.1",
        "PGPORT": str(shop.port),
        "PGUSER": USER,
        "PGDATABASE": "shop",
        "PGPASSWORD": PASSWORD,
        "PGSSLMODE": "verify-full",
        "PGSSLROOTCERT": shop.ca,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert works("postgresql://").tls


def test_a_file_of_mysql_is_read(tls_mariadb, home):
    tls_mariadb.create_database("shop")
    (home / ".my.cnf").write_text(
        f"[client]\nhost=127.0.0.1\nport={tls_mariadb.port}\nuser={USER}\ndatabase=shop\n"
        f'password="{PASSWORD}"\nssl-ca={tls_mariadb.ca}\n'
    )

    link = works("mysql:///?read_default_file=~/.my.cnf")

    assert link.user == f"{USER}@%"
    assert link.tls
    tls_mariadb.drop_database("shop")
