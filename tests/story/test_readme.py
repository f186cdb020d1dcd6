"""The code of the README runs as it stands, and the Chinese one says the same."""

import re

import pytest

from tests.story.page import blocks_of
from tests.story.reader import reading_in
from tests.tidy.source import ROOT
from windlass import Status
from windlass.flow.operate.run import FlowRun

READMES = ["README.md", "README.zh-CN.md"]
LINK = re.compile(r"\]\(([^)#]+)")


@pytest.mark.parametrize("readme", READMES)
def test_the_code_of_the_readme_runs_and_ends_as_it_says(tmp_path, capsys, readme):
    python = [block for block in blocks_of(ROOT / readme) if block.language == "python"]
    lines = [line for block in python for line in block.code.splitlines() if line.strip()]

    with reading_in(tmp_path) as reader:
        reader.read(python)

        cancelled = reader.names["cancelled"]
        assert isinstance(cancelled, FlowRun)
        assert cancelled.status() is Status.SUCCEEDED
        assert reader.names["ledger"].stock("bolt").available == 10
    assert capsys.readouterr().out.splitlines() == ["ada@example.com: order-7 is cancelled"]
    assert (tmp_path / "shop.db").exists()
    assert len(lines) <= 32


def test_both_readmes_have_the_same_code_and_lead_to_the_same_places():
    english, chinese = ((ROOT / readme).read_text() for readme in READMES)

    code = [re.findall(r"```python\n(.*?)```", text, re.DOTALL) for text in (english, chinese)]
    assert code[0] == code[1] != []
    places = [set(LINK.findall(text)) - set(READMES) for text in (english, chinese)]
    assert places[0] == places[1]
    assert [place for place in sorted(places[0]) if not (ROOT / place).exists()] == []
    assert english.count("\n## ") == chinese.count("\n## ")
    assert english.count("\n|") == chinese.count("\n|")


def test_the_readme_has_a_place_for_the_figures_of_the_bench():
    text = (ROOT / "README.md").read_text()

    assert 0 < text.index("<!-- bench -->") < text.index("<!-- /bench -->")
