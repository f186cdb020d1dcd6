"""`examples/flask`: a real server, on a real database, asked over HTTP."""

import pytest

from tests.story.served import PASSWORD, served
from tests.wait import eventually
from windlass import App


@pytest.fixture
def shop(tmp_path, database_url):
    with served(
        tmp_path,
        "flask",
        "--app=examples.flask.shop:shop",
        "run",
        "--port=0",
        WINDLASS_DATABASE_URL=database_url,
    ) as client:
        yield client


def test_orders_and_their_tasks_are_committed_together_and_run_in_the_same_process(
    shop, database_url
):
    assert shop.post("/orders/order-7").status_code == 201
    assert shop.post("/orders/bad-8").status_code == 409

    eventually(lambda: shop.get("/orders").json() == {"order-7": "confirmed"}, 20)
    logged_in = {"auth": ("ada", PASSWORD)}
    tasks = shop.get("/windlass/api/tasks", **logged_in).json()["items"]
    assert [(task["kind"], task["key"]) for task in tasks] == [("confirm", "order-7")]

    # The login of the shop guards the console, and says who acts.
    assert shop.get("/windlass/api/tasks").status_code == 401
    session = shop.get("/windlass/api/session", **logged_in).json()
    assert (session["name"], session["role"]) == ("ada", "operator")
    page = shop.get("/windlass/", **logged_in, follow_redirects=True)
    assert page.status_code == 200
    assert "<div" in page.text
    paused = shop.post(
        "/windlass/api/switches/confirm/pause",
        json={"reason": "sale"},
        headers={"x-csrf-token": session["token"]},
        **logged_in,
    )
    assert paused.status_code == 200, paused.text
    app = App(database_url)
    assert [(entry.who, entry.via) for entry in app.database.read(_log)] == [
        ("ada", "console proxy")
    ]
    app.close()


def _log(connection):
    return connection.exec_driver_sql("select who, via from windlass_audit").all()
