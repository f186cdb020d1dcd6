"""`/metrics` of the console: who may read it, and what it tells."""

import sys

import pytest

from tests.fixture.console import SECRET, VIEWER_SECRET
from tests.watch.metric.metered import Scrape
from windlass.operate.token.operate import FleetTokens
from windlass.view.role import Role
from windlass.web.access import allowed_to
from windlass.web.right import CONSOLE, PLAIN, VIEWERS


@pytest.fixture
def bearers(sqlite_web_shop):
    """The header of a token of each role."""
    tokens = FleetTokens(sqlite_web_shop.app.fleet)
    made = {role: tokens.create(f"a-{role}", role, who="Ada").token for role in Role}
    return {role: {"Authorization": f"Bearer {token}"} for role, token in made.items()}


def test_metrics_need_a_credential(browse):
    console = browse(secret=SECRET)

    answer = console.client.get("/metrics")
    wrong = console.client.get("/metrics", headers={"Authorization": "Bearer not the secret"})

    assert (answer.status_code, wrong.status_code) == (401, 401)
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "windlass_info" not in answer.text + wrong.text


@pytest.mark.parametrize("role", Role)
def test_each_role_reads_metrics_as_the_table_says(browse, bearers, role):
    console = browse(secret=SECRET)

    answer = console.client.get("/metrics", headers=bearers[role])

    assert PLAIN == {"/metrics": VIEWERS}
    assert allowed_to(CONSOLE, "GET", "/metrics") == VIEWERS
    assert answer.status_code == (200 if role in VIEWERS else 403)
    if role in VIEWERS:
        assert answer.headers["content-type"].startswith("text/plain")
        assert Scrape(answer.text)("shard_up", shard="1") == 1


def test_the_viewers_secret_reads_metrics(browse, sqlite_web_shop):
    sqlite_web_shop.send_mail.enqueue("ada")
    console = browse(secret=SECRET, viewer_secret=VIEWER_SECRET, read_only=True)

    answer = console.client.get("/metrics", headers={"Authorization": f"Bearer {VIEWER_SECRET}"})

    found = Scrape(answer.text)
    assert found("task_due", kind="send_mail", shard="1") == 1
    assert found("breaker_state", kind="odd/name ü", shard="1") == 0
    assert SECRET not in answer.text
    assert VIEWER_SECRET not in answer.text
    assert answer.headers["cache-control"] == "no-store"


def test_what_the_console_enqueues_is_counted(browse, sqlite_web_shop):
    console = browse()
    sqlite_web_shop.send_mail.enqueue("ada")

    found = Scrape(console.client.get("/metrics").text)

    assert found("task_enqueued_total", kind="send_mail") == 1


@pytest.mark.parametrize("path", ["/metrics/", "/metrics?x=1", "//metrics", "/%6Detrics"])
def test_no_other_spelling_gets_around_the_gate(browse, path):
    console = browse(secret=SECRET)

    answer = console.client.get(path)

    assert "windlass_info" not in answer.text


def test_without_the_extra_the_answer_says_how_to_get_it(browse, monkeypatch):
    console = browse()
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    answer = console.client.get("/metrics")

    assert answer.status_code == 501
    assert answer.headers["content-type"] == "application/problem+json"
    assert "pip install 'windlass[metrics]'" in answer.json()["detail"]
