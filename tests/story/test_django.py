"""`examples/django`: a whole project with its commands, own tests, worker and server."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.spawn import Spawned, run_forked
from tests.story.django_suite.newer import django_six
from tests.story.served import served
from tests.tidy.source import ROOT
from tests.wait import eventually

ADMIN = {"username": "ada", "password": "open sesame"}


@pytest.fixture
def project(tmp_path, empty_database_url):
    return Project(tmp_path, empty_database_url)


class Project:
    """A copy of the example on a database without a table."""

    def __init__(self, folder, url):
        self.folder = shutil.copytree(ROOT / "examples" / "django", folder / "shop")
        # PyMySQL under Django takes no options from a URL.
        self.settings = {
            "DATABASE_URL": url.partition("?")[0],
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "DJANGO_SUPERUSER_PASSWORD": ADMIN["password"],
            "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(self.folder))),
        }

    def manage(self, *words):
        """`manage.py WORDS`; what it wrote."""
        command = [sys.executable, "-m", "manage", *words]
        environment = {**os.environ, **self.settings}
        done = run_forked(command, check=False, cwd=self.folder, env=environment, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    @contextmanager
    def worker(self):
        log = self.folder / "worker.log"
        process = Spawned(
            "manage",
            "windlass",
            "worker",
            "--json",
            folder=self.folder,
            log=log,
            environment={**os.environ, **self.settings},
        )
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(30)
        assert code == 0, log.read_text()

    def server(self, how):
        """A client of the project, served by WSGI or by ASGI."""
        if how == "asgi":
            arguments = ("uvicorn", "project.asgi:application", "--port=0")
        else:
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            arguments = ("manage", "runserver", "--noreload", f"127.0.0.1:{port}")
        return served(self.folder, *arguments, **self.settings)


@pytest.mark.mostly("postgresql")
def test_a_project_takes_orders_runs_their_tasks_and_shows_them_to_the_staff(
    project, database_engine
):
    assert "no issues" in project.manage("check", "--fail-level", "WARNING")
    project.manage("migrate")
    project.manage("check", "--database", "default", "--fail-level", "WARNING")
    assert "No changes" in project.manage("makemigrations", "--check", "--dry-run")
    project.manage("createsuperuser", "--noinput", "--username=ada", "--email=ada@example.com")
    with (
        project.worker(),
        project.server("wsgi" if database_engine == "sqlite" else "asgi") as shop,
    ):
        taken = shop.post("/orders/order-7")
        assert taken.status_code == 201, taken.text
        assert shop.post("/orders/bad-8").status_code == 409
        eventually(lambda: shop.get("/orders/").json() == {"order-7": "confirmed"}, 30)

        check_the_console(shop)
        check_the_admin(shop)
    status = json.loads(project.manage("windlass", "status", "--json"))
    assert {"confirm", "orders.tasks.send_mail@mail"} <= {each["kind"] for each in status["kinds"]}


def check_the_console(shop):
    """The console asks for Django's login, and then knows who it is."""
    page = shop.get("/windlass/")
    assert page.status_code == 302
    assert page.headers["location"] == "/admin/login/?next=/windlass/"
    assert shop.get("/windlass/api/tasks").status_code == 401

    shop.get("/admin/login/")
    token = {"csrfmiddlewaretoken": shop.cookies["csrftoken"]}
    assert shop.post("/admin/login/", data={**ADMIN, **token}).status_code == 302

    assert "<div" in shop.get("/windlass/").text
    tasks = shop.get("/windlass/api/tasks").json()["items"]
    assert {(task["kind"], task["key"]) for task in tasks} == {
        ("confirm", "order-7"),
        ("orders.tasks.send_mail@mail", None),
    }
    session = shop.get("/windlass/api/session").json()
    assert (session["name"], session["role"]) == ("ada", "admin")
    with shop.stream("GET", "/windlass/api/events") as events:
        assert events.headers["content-type"].startswith("text/event-stream")
        assert next(events.iter_text())
    pause = "/windlass/api/switches/confirm/pause"
    assert shop.post(pause, json={}).status_code == 403
    sent = {"x-csrf-token": session["token"]}
    assert shop.post(pause, json={"reason": "sale"}, headers=sent).status_code == 200


def check_the_admin(shop):
    """Lists to read, whose rows lead to the console."""
    for name in ("task", "failure", "worker"):
        assert shop.get(f"/admin/windlass/{name}/").status_code == 200
    tasks = shop.get("/admin/windlass/task/?q=order-7").text
    assert "/windlass/tasks/" in tasks
    assert "Add task" not in tasks
    assert shop.get("/admin/windlass/task/add/").status_code == 403


@pytest.mark.mostly("sqlite")
def test_the_tests_of_the_project_pass(project):
    assert "Ran 4 tests" in project.manage("test", "--noinput")


@pytest.mark.timeout(600)
def test_the_tests_of_the_project_pass_on_django_6(tmp_path):
    project = Project(tmp_path, f"sqlite:///{tmp_path / 'shop.sqlite3'}")
    done = subprocess.run(
        [django_six() / "bin" / "python", "manage.py", "test", "--noinput"],
        cwd=project.folder,
        env={**os.environ, **project.settings},
        capture_output=True,
        check=False,
        text=True,
        timeout=240,
    )

    assert "Ran 4 tests" in done.stderr, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
