"""The examples of the docs: those that are marked run, and all of them are Python."""

import ast

import pytest

from tests.story.page import Block, blocks_of, pages, run
from tests.tidy.source import name_of
from windlass import App

BLOCKS = [block for page in pages() for block in blocks_of(page)]
RUNNABLE = [page for page in pages() if any(block.is_marked for block in blocks_of(page))]


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_the_marked_examples_of_a_page_run_as_one_script(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WINDLASS_DATABASE_URL", raising=False)

    names = run([block for block in blocks_of(page) if block.is_marked])

    for value in names.values():
        if isinstance(value, App):
            value.close()


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_every_example_is_python(block: Block):
    compile(block.code, block.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_there_are_examples_that_run():
    assert len(RUNNABLE) >= 5
