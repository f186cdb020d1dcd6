"""The example of a source of one's own, against a search server of ours; it is no Elasticsearch."""

import itertools
import random
import textwrap
from collections import Counter
from contextlib import closing

import pytest

from examples.search_index import SearchIndex
from tests.story.page import blocks_of
from tests.story.search import Index, serving
from tests.tidy.source import ROOT
from windlass import App, BadSource, SweepSource

# Half of the numbers lie close together, the others far apart.
NUMBERS = [*range(1, 501), *range(1_000_000, 501_000_000, 1_000_000)]


@pytest.fixture
def index():
    documents = [{"number": number, "title": f"t{number}"} for number in NUMBERS]
    random.Random(6).shuffle(documents)
    return Index(documents)


@pytest.fixture
def source(index):
    with serving(index, "article") as url:
        yield SearchIndex(url, "article", key="number")


def test_a_sweep_over_an_index_handles_every_document_once(source, index, tmp_path):
    app = App(f"sqlite:///{tmp_path / 'windlass.db'}")
    seen = []

    @app.sweep(source, ranges=5, batch=50)
    async def offer(article: dict) -> None:
        seen.append(article)

    with closing(app):
        app.drain()

        assert Counter(each["number"] for each in seen) == dict.fromkeys(NUMBERS, 1)
        assert {each["title"] for each in seen} == {f"t{number}" for number in NUMBERS}
        assert len(offer.ranges()) == 5
        assert offer.audit().ok
    assert isinstance(source, SweepSource)
    assert any("search_after" in search for search in index.searches)


def test_a_sweep_over_an_index_is_split_before_it_runs(source, tmp_path):
    app = App(f"sqlite:///{tmp_path / 'windlass.db'}")
    seen = []

    @app.sweep(source, ranges=2)
    def offer(article: dict) -> None:
        seen.append(article["number"])

    with closing(app):
        offer.start()

        assert offer.split(9) == 9

        app.drain()
        assert Counter(seen) == dict.fromkeys(NUMBERS, 1)


def test_pages_go_on_where_the_last_one_ended(source):
    found, after = [], None
    while page := source.read(after, 5_000_000, 100):
        assert len(page) <= 100
        found += [key for key, _ in page]
        after = page[-1][0]

    assert found == [number for number in NUMBERS if number <= 5_000_000]


def test_ranges_hold_about_equal_documents_although_keys_are_clustered(source):
    edges = [0, *source.bounds(10), NUMBERS[-1]]

    counts = [
        sum(begin < number <= end for number in NUMBERS) for begin, end in itertools.pairwise(edges)
    ]

    assert len(counts) == 10
    assert max(counts) <= 2 * len(NUMBERS) / 10


@pytest.mark.parametrize("off_by", [-0.5, 0.0, 0.02, 0.5])
def test_the_middle_has_documents_on_both_sides_however_wrong_percentiles_are(
    source, index, off_by
):
    index.off_by = off_by

    for after, upto in ((None, None), (400, None), (None, 7), (498, 1_000_000)):
        middle = source.middle(after, upto)

        assert source.read(after, middle, 1)
        assert source.read(middle, upto, 1)
    assert source.middle(499, 500) is None
    assert source.middle(500, 600) is None


def test_an_answer_of_some_shards_only_is_not_an_end(source, index):
    index.failed_shards = 1

    with pytest.raises(BadSource, match="answered 503"):
        source.read(None, None, 10)


def test_single_documents_are_found_and_counted(source, index):
    assert source.find(7) == {"number": 7, "title": "t7"}
    assert source.find(600) is None
    assert source.count() == len(NUMBERS)
    source.check()
    index.documents.append({"title": "nameless"})

    with pytest.raises(BadSource, match="1 documents have no 'number'"):
        source.check()


def test_an_index_that_is_not_there_is_named(source):
    with pytest.raises(BadSource, match=r"index 'offer': it answered 404"):
        SearchIndex(source.url, "offer", key="number").read(None, None, 1)
    with pytest.raises(BadSource, match="it did not answer"):
        SearchIndex("http://127.0.0.1:9", "article", key="number").read(None, None, 1)


@pytest.mark.parametrize(
    "body",
    [
        {"size": 10, "query": {"match_all": {}}, "sort": [{"number": "asc"}]},
        {"size": 10, "query": {"exists": {"field": "number"}}},
        {"size": 10_001, "query": {"exists": {"field": "number"}}, "sort": [{"number": "asc"}]},
        {"size": 0, "query": {"exists": {"field": "number"}}, "from": 10},
    ],
)
def test_the_server_refuses_what_the_example_does_not_use(source, body):
    with pytest.raises(BadSource, match="answered 400"):
        source._search(body)


def test_the_guide_shows_the_example_as_it_is():
    (block,) = [
        block
        for block in blocks_of(ROOT / "docs" / "guide" / "sweep.md")
        if "search_after" in block.code
    ]

    example = (ROOT / "examples" / "search_index" / "__init__.py").read_text()

    assert textwrap.indent(block.code, "    ") in example
