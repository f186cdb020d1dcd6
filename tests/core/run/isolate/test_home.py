"""A child finds the handlers of its worker: in scripts, packages and Django projects."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.source import ROOT

SCRIPT = """
import os
from windlass import App

app = App("sqlite:///shop.db")


@app.task(isolate="process", keep="1d")
def where() -> list[str | int]:
    return [__name__, os.getpid()]


def main():
    ref = where.enqueue()
    app.drain()
    name, pid = ref.result(timeout="5s")
    assert pid != os.getpid()
    print(name)
"""
GUARDED = """
if __name__ == "__main__":
    main()
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_script_that_runs_its_own_worker_is_imported_and_not_run_again(tmp_path):
    (tmp_path / "shop.py").write_text(SCRIPT + GUARDED)

    done = run(tmp_path, "shop.py")

    assert (done.returncode, done.stdout.strip()) == (0, "__windlass_main__"), done.stderr


def test_a_module_that_runs_as_a_program_is_too(tmp_path):
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "stock.py").write_text("LEFT = 3\n")
    (package / "serve.py").write_text("from .stock import LEFT\n" + SCRIPT + GUARDED)

    done = run(tmp_path, "-m", "shop.serve")

    assert (done.returncode, done.stdout.strip()) == (0, "__windlass_main__"), done.stderr


def test_a_script_without_its_guard_is_told_to_have_one(tmp_path):
    (tmp_path / "shop.py").write_text(SCRIPT + "\nmain()\n")

    done = run(tmp_path, "shop.py")

    assert done.returncode != 0
    assert 'do so behind if __name__ == "__main__":' in done.stderr


def test_what_is_typed_into_a_session_is_refused(tmp_path):
    done = run(tmp_path, "-c", SCRIPT)

    assert "this one was typed into a session; write it into a file" in done.stderr


def test_a_module_that_was_loaded_by_its_file_is_found_by_its_file(tmp_path):
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "shop.py").write_text(SCRIPT)
    loader = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("plugin", "hidden/shop.py")
sys.modules["plugin"] = plugin = importlib.util.module_from_spec(spec)
spec.loader.exec_module(plugin)
plugin.main()
"""

    done = run(tmp_path, "-c", loader)

    assert (done.returncode, done.stdout.strip()) == (0, "plugin"), done.stderr


DJANGO = """
import os, sys
import django
from django.conf import settings

os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
django.setup()

from shelf.tasks import app, count

if __name__ == "__main__":
    app.migrate()
    ref = count.enqueue()
    app.drain()
    print(*ref.result(timeout="5s"))
"""
SETTINGS = """
SECRET_KEY = "x"
INSTALLED_APPS = ["django.contrib.contenttypes", "windlass.contrib.django", "shelf"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}}
USE_TZ = True
WINDLASS = {"TABLES": "windlass"}
"""
TASKS = """
import os

from windlass.contrib.django import app


@app.task(isolate="process", keep="1d")
def count() -> list[str]:
    from django.apps import apps
    from django.contrib.contenttypes.models import ContentType
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("select 1")
    return ["ready" if apps.ready else "not ready", connection.vendor, ContentType.__name__]
"""


def test_a_child_of_a_django_project_sets_django_up(tmp_path):
    pytest.importorskip("django")
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / "__init__.py").touch()
    (tmp_path / "shelf" / "tasks.py").write_text(TASKS)
    (tmp_path / "settings.py").write_text(SETTINGS)
    (tmp_path / "run.py").write_text(DJANGO)

    done = run(tmp_path, "run.py")

    assert (done.returncode, done.stdout.strip()) == (0, "ready sqlite ContentType"), done.stderr
