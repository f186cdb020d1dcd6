"""The code of the README runs as it stands."""

import pytest

from tests.story.page import blocks_of, run
from tests.tidy.source import ROOT
from windlass import App, Status, TaskRef


@pytest.fixture
def names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WINDLASS_DATABASE_URL", raising=False)
    names = run(blocks_of(ROOT / "README.md"))
    yield names
    app = names["app"]
    assert isinstance(app, App)
    app.close()


def test_the_code_of_the_readme_runs_and_its_tasks_end_as_it_says(names, tmp_path, capsys):
    bill, reminder = names["bill"], names["reminder"]
    assert isinstance(bill, TaskRef)
    assert isinstance(reminder, TaskRef)

    assert bill.status() is Status.SUCCEEDED
    assert bill.result() == 12
    assert reminder.status() is Status.WAITING
    assert (tmp_path / "shop.db").exists()


def test_the_mail_of_the_readme_is_sent(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    names = run(blocks_of(ROOT / "README.md"))

    app = names["app"]
    assert isinstance(app, App)
    app.close()
    assert capsys.readouterr().out.splitlines() == ["ada@example.com: thank you"]
