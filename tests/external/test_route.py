"""Callbacks below the console: the secret of a submission opens its task, and nothing else does."""

import pytest

from tests.fixture.console import SECRET
from windlass import External, Running, Status, context


class Press(External):
    """Prints for ever, unless it calls back."""

    def __init__(self) -> None:
        self.secrets: list[str] = []

    def submit(self, pages: int) -> str:
        self.secrets.append(context().secret)
        return f"job-{pages}"

    def poll(self, handles: list[str]) -> dict[str, Running]:
        return {handle: Running() for handle in handles}


@pytest.fixture
def press():
    return Press()


@pytest.fixture
def job(sqlite_web_shop, press):
    task = sqlite_web_shop.app.external("press", press, every="1h")
    job = task.enqueue(7)
    sqlite_web_shop.app.drain()
    assert job.status() == Status.EXTERNAL
    return job


def test_a_system_calls_back_by_the_secret_of_its_submission(browse, press, job):
    client = browse(secret=SECRET).client
    told = {"ok": True, "result": {"pages": 7}, "who": "the press"}
    bearer = {"Authorization": f"Bearer {press.secrets[0]}"}

    first = client.post(f"/callback/{job.id}", json=told, headers=bearer)
    again = client.post(f"/callback/{job.id}", json={"ok": False}, headers=bearer)

    assert (first.status_code, first.json()) == (200, {"changed": True})
    assert (again.status_code, again.json()) == (200, {"changed": False})
    assert job.result(timeout="5s") == {"pages": 7}


def test_neither_a_session_nor_the_secret_of_the_console_calls_back(browse, job):
    browser = browse(secret=SECRET)
    browser.log_in(SECRET)

    def told(headers, body=None, task=job.id):
        answer = browser.client.post(
            f"/callback/{task}", json={"ok": True} if body is None else body, headers=headers
        )
        assert answer.headers["content-type"] == "application/problem+json"
        return answer.status_code

    assert told(browser.headers) == 401
    assert told({"Authorization": "Basic x"}) == 401
    assert told({"Authorization": f"Bearer {SECRET}"}) == 404
    assert told({"Authorization": "Bearer x"}, task=job.id + 1) == 404
    assert told({"Authorization": "Bearer x"}, body={"ok": "yes"}) == 422
    assert job.status() == Status.EXTERNAL
