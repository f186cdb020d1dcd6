"""Databases that cannot be used: the error names the path and the cure."""

import logging
import os
import subprocess
import sys

import pytest

from tests.tidy.source import ROOT
from windlass import App, BadDatabase, BadSource, Csv


def enqueue_on(url: str) -> None:
    app = App(url)

    @app.task
    def ping() -> None: ...

    try:
        ping.enqueue()
    finally:
        app.close()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no/such/shop.db", "there is no folder {folder}/no/such; create it"),
        ("shelf", "{folder}/shelf is a folder; give the path of a file in it, such as "),
        ("notes.txt", "{folder}/notes.txt is not a SQLite database"),
    ],
)
def test_a_path_that_is_no_database_is_named_with_the_cure(tmp_path, path, said):
    (tmp_path / "shelf").mkdir()
    (tmp_path / "notes.txt").write_text("bolts and nuts " * 100)

    with pytest.raises(BadDatabase) as refused:
        enqueue_on(f"sqlite:///{tmp_path / path}")

    assert said.format(folder=tmp_path) in str(refused.value)
    assert "sqlalche" not in str(refused.value)


def test_two_slashes_are_told_from_three():
    with pytest.raises(BadDatabase, match=r"write sqlite:///x\.db, or sqlite:////x\.db"):
        App("sqlite://x.db")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("mode", [0o644, 0o600])
def test_a_file_of_somebody_else_is_named_with_the_cure(tmp_path, mode):
    enqueue_on(f"sqlite:///{tmp_path / 'shop.db'}")
    (tmp_path / "shop.db").chmod(mode)
    for folder in (tmp_path, *tmp_path.parents):
        folder.chmod(folder.stat().st_mode | 0o055)
    script = f"""
import os
from windlass import App, WindlassError
app = App("sqlite:///{tmp_path / "shop.db"}")
@app.task
def ping(): ...
os.setgroups([]), os.setgid(65534), os.setuid(65534)
try:
    ping.enqueue()
except WindlassError as problem:
    print(problem)
"""
    found = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )

    assert f"{tmp_path}/shop.db cannot be" in found.stdout, found.stdout
    assert "give the user of this process the right to" in found.stdout


def test_a_missing_file_of_a_source_is_named_with_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(BadSource) as refused:
        Csv("orders.csv", key="order").check()

    assert str(refused.value).startswith("orders.csv: No such file")
    assert str(refused.value).endswith(f"check the path, from {tmp_path}")


def test_the_default_file_is_told_when_it_is_made(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WINDLASS_DATABASE_URL", raising=False)

    with caplog.at_level(logging.WARNING, "windlass"):
        for _ in range(2):
            app = App()
            app.prepare()
            app.prepare()
            app.close()

    (told,) = [each for each in caplog.messages if "no database was given" in each]
    assert str(tmp_path / "windlass.db") in told
    assert "WINDLASS_DATABASE_URL" in told
