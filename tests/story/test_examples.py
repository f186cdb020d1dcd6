"""The examples: what their READMEs say to type runs, and tells the story that it should."""

import re

import pytest

from tests.story.page import blocks_of
from tests.story.reader import reading_in
from tests.tidy.source import ROOT

EXAMPLES = ROOT / "examples"
STORIES = {
    "rolling": [
        "150 products are new",
        r"[1-9]\d* did not answer and come again in a minute",
        r"SKU-007, asked for just now: \d+ in stock",
    ],
    "control": [
        "the first try ended with -9",
        "what was done in all: download, check, load, load, load, report",
        "it took [2-9] tries",
    ],
    "sweep": [
        "10 ranges; now there are 16",
        "1,998 done, 2 failed",
        "17: ConnectionError",
        "after a retry 0 are left",
        "audit: all is well",
    ],
    "flow": [
        "print_report   failed     OSError: out of paper",
        "1 node begins again",
        "it has succeeded",
        "print_report   succeeded  14 sold, 100 rows of facts",
        "warn           cancelled  skipped",
    ],
    "ring": [
        "was killed when",
        r"all 200 were packed [\d.]+ s later, none is missing",
        "left with 0",
    ],
    "sync": [
        "a seller was killed after 200 sales",
        "all 1,200 sales are in the book, each once",
    ],
    "cancel_order": ["order-7 is sold", "run [0-9]+ undoes order-7"],
}


@pytest.mark.parametrize("story", STORIES)
def test_an_example_runs_and_tells_its_story(story, tmp_path):
    with reading_in(tmp_path) as reader:
        reader.read(blocks_of(EXAMPLES / story / "README.md"))

    missing = [words for words in STORIES[story] if not re.search(words, reader.said, re.MULTILINE)]
    assert missing == [], reader.said


def test_every_example_is_a_folder_with_a_readme_that_is_listed_and_tested():
    folders = {path.parent.name for path in EXAMPLES.glob("*/__init__.py")}
    listed = re.findall(r"^\| \[(\w+)\]", (EXAMPLES / "README.md").read_text(), re.MULTILINE)

    assert {path.parent.name for path in EXAMPLES.glob("*/README.md")} == folders
    assert set(listed) == folders
    # An example that has a test of its own says so by its name.
    own = {name for name in folders if (ROOT / f"tests/story/test_{name}.py").exists()}
    assert folders <= {*STORIES, *own}
