"""What Flask gets beside the example that is served in tests/story."""

import pytest
from flask import Flask, redirect, request

from tests.wait import eventually
from windlass import App
from windlass.contrib.flask import ConsoleUser, Windlass, console


@pytest.fixture
def app(sqlite_url):
    app = App(sqlite_url)

    @app.task(keep="1h")
    def greet(name: str) -> str:
        return f"hello {name}"

    app.greet = greet
    yield app
    app.close()


def user():
    match request.headers.get("x-name"):
        case None:
            return redirect("/login")
        case "nobody":
            return None
        case name:
            return ConsoleUser(name, "viewer")


def test_the_console_is_below_any_prefix_for_those_whom_the_application_knows(app):
    shop = Flask(__name__)
    shop.register_blueprint(console(app, user=user), url_prefix="/deep/windlass")
    client = shop.test_client()

    assert client.get("/deep/windlass/").location == "/login"
    assert client.get("/deep/windlass/", headers={"x-name": "nobody"}).status_code == 403
    known = {"x-name": "ada"}
    assert client.get("/deep/windlass/api/session", headers=known).json["name"] == "ada"
    assert client.get("/deep/windlass/api/tasks?kind=greet", headers=known).json["items"] == []
    # A part of a path may have any character.
    answer = client.get("/deep/windlass/api/switches/a%2Fb", headers=known)
    assert "a/b" in answer.json["detail"]
    large = client.post("/deep/windlass/api/pause", data=b"x" * 1_100_000, headers=known)
    assert large.status_code == 413


def test_a_worker_runs_on_a_thread_until_it_is_stopped(app):
    extension = Windlass(app, worker=True)
    extension.init_app(Flask(__name__))
    ref = app.greet.enqueue("ada")
    eventually(lambda: ref.status().name == "SUCCEEDED", 20)

    extension.stop()

    left = "select count(*) from windlass_worker where left_at is null"
    assert app.database.read(lambda connection: connection.exec_driver_sql(left).scalar()) == 0
