"""The code of the README runs as it stands."""

from tests.story.page import blocks_of, run
from tests.tidy.source import ROOT
from windlass import App, Status, TaskRef


def test_the_code_of_the_readme_runs_and_its_tasks_end_as_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    names = run(blocks_of(ROOT / "README.md"))

    app, bill, reminder = names["app"], names["bill"], names["reminder"]
    assert isinstance(app, App)
    assert isinstance(bill, TaskRef)
    assert isinstance(reminder, TaskRef)
    assert capsys.readouterr().out.splitlines() == ["ada@example.com: thank you"]
    assert (bill.status(), bill.result()) == (Status.SUCCEEDED, 12)
    assert reminder.status() is Status.WAITING
    assert (tmp_path / "shop.db").exists()
    app.close()


def test_the_readme_has_a_place_for_the_figures_of_the_bench():
    text = (ROOT / "README.md").read_text()

    assert 0 < text.index("<!-- bench -->") < text.index("<!-- /bench -->")
