"""The databases that `windlass.testing` makes on a server are reached as any other."""

import pytest

from tests.server.tls import PASSWORD
from windlass import App, BadDatabase
from windlass.operate.scratch import make_lender


def lent(lender):
    """How many tasks a lent database has, before and after one was enqueued; it is cleaned."""
    with lender.lend() as url:
        app = App(url)

        @app.task
        def work() -> int:
            return 7

        ref = work.enqueue()
        app.drain()
        assert ref.result() == 7
        app.close()
    return url


def test_scratch_databases_are_made_and_used_by_tls(tls_server, tmp_path):
    owner = {"postgresql": "postgres", "mysql": "mysql"}[tls_server.scheme]
    lender = make_lender(tls_server.at(owner, ca=tls_server.ca), tmp_path)
    try:
        assert lent(lender) == lent(lender)
    finally:
        lender.close()


def test_the_ca_of_scratch_databases_may_come_from_the_environment(
    tls_server, tmp_path, monkeypatch
):
    owner = {"postgresql": "postgres", "mysql": "mysql"}[tls_server.scheme]
    monkeypatch.setenv("WINDLASS_DATABASE_CA", str(tls_server.stranger.ca))
    wrong = make_lender(tls_server.at(owner), tmp_path)

    with pytest.raises(BadDatabase, match="cannot create a test database") as raised:
        lent(wrong)
    monkeypatch.setenv("WINDLASS_DATABASE_CA", tls_server.ca)
    lender = make_lender(tls_server.at(owner), tmp_path)

    assert PASSWORD not in str(raised.value)
    assert lent(lender)
    lender.close()


def test_scratch_databases_have_the_schema_of_the_environment(
    tls_postgresql, tmp_path, monkeypatch
):
    monkeypatch.setenv("WINDLASS_SCHEMA", "jobs")
    lender = make_lender(tls_postgresql.at("postgres", ca=tls_postgresql.ca), tmp_path)

    assert "schema=jobs" in lent(lender)
    assert lent(lender)
    lender.close()
