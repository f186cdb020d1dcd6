"""TLS: every connection of an app and of a ledger is encrypted, and knows who answers."""

import pytest

from tests.core.run.working import working
from tests.server.tls import CERTAIN, PASSWORD, USER
from tests.wait import eventually
from windlass import App, BadDatabase, DatabaseUnavailable, Table
from windlass.database.database import Database
from windlass.ledger import Ledger

SEEN = """
    select a.query, coalesce(s.ssl, false) from pg_stat_activity a
    left join pg_stat_ssl s on s.pid = a.pid where a.usename = 'shop'
"""


@pytest.fixture(autouse=True)
def no_tls_of_the_machine(monkeypatch, tmp_path):
    """What is in the home of whoever runs the tests does not count."""
    monkeypatch.setenv("HOME", str(tmp_path))


def login_of(url):
    """As whom, and by which TLS, a new connection is connected; fails at the first try."""
    database = Database(url)
    try:
        return database.read(database.dialect.login, tries=1)
    finally:
        database.close()


def refused(url):
    """Why there is no connection."""
    with pytest.raises(DatabaseUnavailable) as raised:
        login_of(url)
    assert PASSWORD not in str(raised.value)
    return str(raised.value)


def test_with_the_right_ca_the_connection_is_encrypted(tls_server, tls_database):
    login = login_of(tls_server.at(tls_database, ca=tls_server.ca))

    assert login.user.partition("@")[0] == USER
    assert login.tls.startswith("TLSv1.")


def test_a_server_of_another_ca_is_refused(tls_server, tls_database):
    why = refused(tls_server.at(tls_database, ca=str(tls_server.stranger.ca)))

    assert "certificate" in why.lower()
    assert "check ca=" in why


def test_a_server_of_another_name_is_refused(tls_server, tls_database):
    """Its certificate is for 127.0.0.1, not for localhost."""
    why = refused(tls_server.at(tls_database, host="localhost", ca=tls_server.ca))

    assert "certificate" in why.lower()
    assert "the host in the URL" in why


@pytest.mark.parametrize("mode", ["verify-ca", "require"])
def test_less_is_checked_only_if_the_url_says_so(tls_server, tls_database, mode):
    asked = {"sslmode": mode} | ({"ca": tls_server.ca} if mode == "verify-ca" else {})

    assert login_of(tls_server.at(tls_database, host="localhost", **asked)).tls


def test_without_the_name_the_ca_is_still_checked(tls_server, tls_database):
    stranger = str(tls_server.stranger.ca)

    why = refused(tls_server.at(tls_database, ca=stranger, sslmode="verify-ca"))

    assert "certificate" in why.lower()


def test_a_server_that_does_not_encrypt_is_refused(mariadb_url, postgresql_url, tls_server):
    plain = {"mysql": mariadb_url, "postgresql": postgresql_url}[tls_server.scheme]

    why = refused(f"{plain.partition('?')[0]}?ca={tls_server.ca}")

    assert "ssl" in why.lower()


def test_the_names_of_the_drivers_work_too(tls_server, tls_database):
    names = {
        "postgresql": {"sslrootcert": tls_server.ca, "sslmode": "verify-full"},
        "mysql": {"ssl_ca": tls_server.ca, "ssl_verify_identity": "true"},
    }[tls_server.scheme]

    assert login_of(tls_server.at(tls_database, **names)).tls
    assert "certificate" in refused(tls_server.at(tls_database, host="localhost", **names)).lower()


def test_a_ca_by_the_drivers_name_alone_means_that_it_is_checked(tls_server, tls_database):
    name = {"postgresql": "sslrootcert", "mysql": "ssl_ca"}[tls_server.scheme]

    assert login_of(tls_server.at(tls_database, **{name: tls_server.ca})).tls
    refused(tls_server.at(tls_database, host="localhost", **{name: tls_server.ca}))


def test_a_client_shows_its_certificate(tls_server, tls_database):
    url = tls_server.at(
        tls_database, user=CERTAIN, password=None, ca=tls_server.ca, **tls_server.client
    )

    assert login_of(url).user.partition("@")[0] == CERTAIN
    refused(tls_server.at(tls_database, user=CERTAIN, password=None, ca=tls_server.ca))


def test_the_environment_names_the_files(tls_server, tls_database, monkeypatch):
    url = tls_server.at(tls_database, user=CERTAIN, password=None)
    monkeypatch.setenv("WINDLASS_DATABASE_CA", tls_server.ca)
    for name, path in tls_server.client.items():
        monkeypatch.setenv(f"WINDLASS_DATABASE_{name.upper()}", path)

    assert login_of(url).user.partition("@")[0] == CERTAIN

    monkeypatch.setenv("WINDLASS_DATABASE_CA", str(tls_server.stranger.ca))
    assert "certificate" in refused(url).lower()


def test_the_url_counts_more_than_the_environment(tls_server, tls_database, monkeypatch):
    monkeypatch.setenv("WINDLASS_DATABASE_CA", str(tls_server.stranger.ca))

    assert login_of(tls_server.at(tls_database, ca=tls_server.ca)).tls


def test_a_whole_app_works_by_tls(tls_server, tls_database):
    app = App(tls_server.at(tls_database, ca=tls_server.ca))
    app.migrate()
    ran = []

    @app.task
    def note(number: int) -> None:
        ran.append(number)

    with working(app):
        note.enqueue_many([{"number": number} for number in range(50)])
        eventually(lambda: len(ran) == 50, what="all tasks")

    app.close()
    assert sorted(ran) == list(range(50))


def test_the_listener_and_the_heartbeat_are_encrypted(tls_postgresql):
    tls_postgresql.create_database("heard")
    app = App(tls_postgresql.at("heard", ca=tls_postgresql.ca))
    app.migrate()
    watcher = Database(tls_postgresql.url_of("heard"))

    def seen():
        return watcher.read(lambda connection: connection.exec_driver_sql(SEEN).fetchall())

    with working(app):
        eventually(lambda: any("listen" in query for query, _ in seen()), what="the listener")
        reserved = app.database.reserved.engine.pool
        eventually(lambda: reserved.checkedin() + reserved.checkedout(), what="the heartbeat")
        connections = seen()

    app.close()
    watcher.close()
    assert len(connections) > 2
    assert all(is_encrypted for _, is_encrypted in connections)


def test_a_ledger_works_by_tls(tls_server, tls_database):
    ledger = Ledger(tls_server.at(tls_database, ca=tls_server.ca))
    ledger.migrate()

    ledger.restock("delivery-1", {"bolt": 10})

    assert ledger.stock("bolt").available == 10
    assert ledger.database.read(ledger.database.dialect.login).tls
    ledger.close()


def test_a_table_is_read_by_tls(tls_server, tls_database):
    tls_server.execute(*_product(tls_server, tls_database))
    right = Table(tls_server.at(tls_database, ca=tls_server.ca), "product", key="code")
    wrong = Table(
        tls_server.at(tls_database, ca=str(tls_server.stranger.ca)), "product", key="code"
    )

    assert list(right.keys()) == [["bolt"]]
    with pytest.raises(DatabaseUnavailable, match=r"(?i)certificate"):
        list(wrong.keys())
    right.close()


def _product(server, name):
    if server.scheme == "mysql":
        yield f"create table {name}.product (code varchar(20) primary key)"
        yield f"insert into {name}.product values ('bolt')"
        return
    database = Database(server.url_of(name))
    with database.engine.begin() as connection:
        connection.exec_driver_sql("create table product (code text primary key)")
        connection.exec_driver_sql("insert into product values ('bolt')")
    database.close()


def test_a_command_with_only_a_url_uses_the_files_of_the_environment(
    tls_server, tls_database, monkeypatch, windlass
):
    monkeypatch.setenv("WINDLASS_DATABASE_URL", tls_server.at(tls_database))
    monkeypatch.setenv("WINDLASS_DATABASE_CA", tls_server.ca)

    answer = windlass("migrate")

    assert answer.code == 0, answer
    assert "is now at version" in answer.out
    assert PASSWORD not in answer.out


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("ca=/no/such/ca.pem", "ca=/no/such/ca.pem cannot be read: No such file or directory"),
        ("cert=/no/such/cert.pem&key=/k", "cert=/no/such/cert.pem cannot be read"),
        ("cert={file}", "a cert without a key; add key=/path/file.pem, or set $WINDLASS_DATABASE_"),
        ("key={file}", "a key without a cert"),
        ("ca={file}", "some.pem has no certificate"),
        ("cert={file}&key={file}", "are not a certificate and its key"),
        ("sslmode=maybe", "sslmode=maybe is not one of disable, allow, prefer, require, verify-ca"),
        ("ca={file}&ca={file}", "ca is given twice"),
    ],
)
def test_what_cannot_be_right_is_refused_by_its_name(scheme, options, said, tmp_path):
    file = tmp_path / "some.pem"
    file.touch()

    with pytest.raises(BadDatabase) as raised:
        App(f"{scheme}://ada:secret@host/shop?{options.format(file=file)}")

    assert said in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_missing_file_is_named_by_its_variable(monkeypatch):
    monkeypatch.setenv("WINDLASS_DATABASE_CA", "/no/such/ca.pem")

    with pytest.raises(BadDatabase, match=r"\$WINDLASS_DATABASE_CA '/no/such/ca.pem' cannot be"):
        App("postgresql://host/shop")


@pytest.mark.parametrize("words", ["ssl=true", "ssl-mode=REQUIRED", "sslmode=require"])
def test_mysql_is_asked_to_encrypt_in_the_words_of_others(tls_mariadb, words):
    url = tls_mariadb.at("mysql", user="root", password="")

    assert login_of(f"{url}?{words}").tls


def test_mysql_cannot_verify_without_a_ca():
    with pytest.raises(BadDatabase, match="sslmode=verify-full needs to know the CA"):
        App("mysql://host/shop?sslmode=verify-full")


def test_tls_makes_no_sense_for_a_file():
    with pytest.raises(BadDatabase, match="ca cannot be used with SQLite"):
        App("sqlite:///shop.db?ca=/some/ca.pem")


def test_check_tells_as_whom_and_how_it_is_connected(
    tls_server, tls_database, write_module, windlass
):
    url = tls_server.at(tls_database, ca=tls_server.ca)
    module = write_module(f"from windlass import App\napp = App({url!r})\napp.migrate()\n")

    answer = windlass("check", "--app", f"{module}:app")

    told = " ".join(answer.out.split())
    assert f"as {USER}" in told
    assert "encrypted by TLSv1." in told
    assert PASSWORD not in answer.out


def test_check_tells_that_a_connection_is_not_encrypted(tls_server, write_module, windlass):
    url = tls_server.url_of({"postgresql": "postgres", "mysql": "mysql"}[tls_server.scheme])
    url += "&sslmode=disable" if "?" in url else "?sslmode=disable"
    module = write_module(f"from windlass import App\napp = App({url!r})\n")

    answer = windlass("check", "--app", f"{module}:app")

    assert "not encrypted" in " ".join(answer.out.split())
