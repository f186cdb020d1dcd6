"""`/healthz` and `/readyz` of the console."""

from tests.fixture.console import SECRET
from windlass import App, web


def test_a_console_is_alive_and_ready_for_anybody_who_asks(browse):
    console = browse(secret=SECRET, host="ops.example", address="192.0.2.7")

    for path in ("/healthz", "/readyz"):
        answer = console.client.get(path)

        assert (answer.status_code, answer.text) == (200, "ok\n")
        assert answer.headers["content-type"].startswith("text/plain")


def test_a_console_without_its_database_is_alive_and_not_ready(tmp_path):
    from starlette.testclient import TestClient

    lost = App(f"sqlite:///{tmp_path}/nowhere/shop.db", statement_timeout="1s")
    client = TestClient(web.create(lost, secret=SECRET), base_url="http://ops.example")

    alive, ready = client.get("/healthz"), client.get("/readyz")

    assert (alive.status_code, alive.text) == (200, "ok\n")
    assert (ready.status_code, ready.text) == (503, "not ready: the database does not answer\n")
    assert str(tmp_path) not in ready.text
