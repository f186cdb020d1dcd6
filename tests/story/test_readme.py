"""The code of the README runs as it stands."""

from tests.story.page import blocks_of
from tests.story.reader import reading_in
from tests.tidy.source import ROOT
from windlass import Status, TaskRef


def test_the_code_of_the_readme_runs_and_its_tasks_end_as_it_says(tmp_path, capsys):
    python = [block for block in blocks_of(ROOT / "README.md") if block.language == "python"]

    with reading_in(tmp_path) as reader:
        reader.read(python)

        bill, reminder = reader.names["bill"], reader.names["reminder"]
        assert isinstance(bill, TaskRef)
        assert isinstance(reminder, TaskRef)
        assert (bill.status(), bill.result()) == (Status.SUCCEEDED, 12)
        assert reminder.status() is Status.WAITING
    assert capsys.readouterr().out.splitlines() == ["ada@example.com: thank you"]
    assert (tmp_path / "shop.db").exists()


def test_the_readme_has_a_place_for_the_figures_of_the_bench():
    text = (ROOT / "README.md").read_text()

    assert 0 < text.index("<!-- bench -->") < text.index("<!-- /bench -->")
