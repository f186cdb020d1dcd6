"""ARCHITECTURE.md and the pages about the inside tell of the tree that there is."""

import re

import pytest

from scripts import architecture
from scripts.architecture import PAGE
from tests.tidy.source import PACKAGE, ROOT, name_of

PATH = re.compile(r"`([\w.-]+/[\w./-]*)`")


def test_the_list_of_files_is_what_the_code_has():
    told = PAGE.read_text()

    assert told == architecture.page(), "ARCHITECTURE.md is old; run: make architecture"


@pytest.mark.parametrize(
    "page", [PAGE, *sorted((ROOT / "docs/internals").rglob("*.md"))], ids=name_of
)
def test_every_path_that_is_named_exists(page):
    told, *_ = page.read_text().split(architecture.BEGIN)

    missing = [
        path
        for path in PATH.findall(told)
        if not (ROOT / path).exists() and not (PACKAGE / path).exists()
    ]

    assert missing == []
