"""A connection by the driver alone is the one that Windlass itself would open."""

import os

import pytest

from windlass.core.ring.guard_process import connect
from windlass.database.database import Database
from windlass.database.driver import driver_call


def how_of(database: Database) -> dict:
    call = driver_call(database)
    return {"module": call.module, "args": call.args, "named": call.named, "begin": call.begin}


def test_it_leads_to_the_same_database_and_commits_by_itself(database_url):
    database = Database(database_url)
    text = "update windlass_shard set members = 'etcd'"

    first, second = connect(how_of(database)), connect(how_of(database))
    first.cursor().execute(text)

    cursor = second.cursor()
    cursor.execute("select members from windlass_shard")
    assert cursor.fetchone()[0] == "etcd"
    first.close()
    second.close()
    database.close()


@pytest.mark.parametrize(
    ("url", "module", "expected"),
    [
        (
            "postgresql://me:p%40ss@/shop?host=a:1&host=b:2&sslmode=verify-full&sslrootcert=/ca",
            "psycopg",
            {"host": "a,b", "port": "1,2", "password": "p@ss", "sslmode": "verify-full"},
        ),
        (
            "mysql://me:p@h:33/shop?ssl_ca=/ca",
            "pymysql",
            {
                "host": "h",
                "port": 33,
                "ssl": {"ca": "/ca", "check_hostname": True, "verify_mode": True},
            },
        ),
        (
            "mysql://me:p@h:33/shop?unix_socket=/s",
            "pymysql",
            {"unix_socket": "/s", "ssl_disabled": True},
        ),
    ],
)
def test_hosts_sockets_tls_and_time_outs_are_those_of_the_url(url, module, expected):
    database = Database(url)

    call = driver_call(database)

    assert call.module == module
    assert {name: call.named[name] for name in expected} == expected
    assert call.named["autocommit"] is True
    assert call.named["connect_timeout"] == 2
    assert "context" not in call.named


def test_a_file_is_that_of_the_folder_in_which_it_was_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    database = Database("sqlite:///shop.db")
    monkeypatch.chdir(os.path.dirname(tmp_path))

    assert driver_call(database).args == [str(tmp_path / "shop.db")]


def test_a_database_in_memory_is_for_its_own_process():
    assert driver_call(Database("sqlite://")) is None


def test_a_password_that_only_this_process_can_ask_for_is_not_handed_over():
    database = Database("postgresql://me@h/shop", password=lambda _url: "secret")

    assert driver_call(database) is None
