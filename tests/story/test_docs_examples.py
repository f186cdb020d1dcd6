"""Every block of every page runs, in the order of the page."""

import pytest

from tests.story.page import blocks_of, pages
from tests.story.reader import reading_in
from tests.tidy.source import ROOT, name_of

# Those beside the examples are read by the tests of the examples.
PAGES = [page for page in pages() if blocks_of(page) and ROOT / "examples" not in page.parents]
# Each has a reason. A page that needs more of them should be written differently.
MOST_NOT_RUN = 11
# It shows parts of a project; `examples/django` is a whole one, and is run.
DJANGO = ROOT / "docs" / "guide" / "django.md"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_does_what_it_says(page, tmp_path):
    with reading_in(tmp_path) as reader:
        reader.read(blocks_of(page))


def test_few_blocks_are_not_run_and_each_says_why():
    reasons = {
        block.place: block.reason
        for page in PAGES
        for block in blocks_of(page)
        if block.reason is not None
    }

    assert [place for place, reason in reasons.items() if len(reason.split()) < 3] == []
    of_django = {block.place for block in blocks_of(DJANGO)}
    assert len(reasons.keys() - of_django) <= MOST_NOT_RUN, reasons


def test_there_is_something_to_run():
    blocks = [block for page in PAGES for block in blocks_of(page)]

    assert sum(block.language == "python" for block in blocks) > 50
    assert sum(block.language == "sh" for block in blocks) > 10
