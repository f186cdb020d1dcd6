"""What a sweep reads from its source: all of it, however short the pages, and only real keys."""

from contextlib import closing

import pytest

from tests.sweep.offer import Articles, declare
from windlass import BadKey, BadSource, Table

# The databases keep what was read alike.
pytestmark = pytest.mark.mostly("sqlite")


class Capped:
    """The numbers from 1 to 100, of which it never hands out more than seven at once."""

    name = "capped"

    def __init__(self, keys=range(1, 101)):
        self.keys = list(keys)

    def _between(self, after, upto):
        return [
            key
            for key in self.keys
            if (after is None or key > after) and (upto is None or key <= upto)
        ]

    def bounds(self, ranges):
        return [50]

    def middle(self, after, upto):
        return None

    def read(self, after, upto, limit):
        return [(key, key) for key in self._between(after, upto)[: min(limit, 7)]]


class Edged(Capped):
    """One that can tell where rows end."""

    def edge(self, after, upto, count):
        keys = self._between(after, upto)[:count]
        return keys[-1] if keys else None


class Given(Capped):
    """Hands out what it was made of, all at once."""

    def bounds(self, ranges):
        return []

    def read(self, after, upto, limit):
        return self.keys if after is None else []


class Stuck(Edged):
    """Hands out its first rows again and again."""

    def read(self, after, upto, limit):
        return [(1, 1)]


@pytest.fixture
def seen():
    return []


@pytest.mark.parametrize("kind", [Capped, Edged])
@pytest.mark.parametrize("many", [False, True])
def test_a_short_page_is_not_the_end(app, seen, kind, many):
    offer = declare(app, seen, kind(), batch=20, many=many)

    app.drain()

    found = [number for page in seen for number in page] if many else seen
    assert sorted(found) == list(range(1, 101))
    assert offer.progress().done == 100
    assert offer.audit().ok


def test_rows_that_come_after_a_range_was_found_empty_are_not_passed(app, seen):
    class Late(Capped):
        reads = 0

        def read(self, after, upto, limit):
            self.reads += upto == 50
            if upto == 50 and self.reads == 1:
                return []
            return super().read(after, upto, limit)

    declare(app, seen, Late(), batch=20)

    app.drain()

    assert sorted(seen) == list(range(1, 101))


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("x" * 1_100, "at most 1000 fit"),
        (2.5, "2.5 cannot be a key"),
        (None, "a key is null"),
        (("a", None), "a key is null"),
        ("a\x00b", "databases cannot store"),
    ],
)
def test_a_key_in_the_middle_of_a_page_that_cannot_be_kept_is_trouble_of_the_source(
    app, key, words
):
    offer = declare(app, [], Given([(1, "a"), (key, "b"), ("c", "c")]), ranges=1)

    with pytest.raises(BadKey, match=words):
        app.drain()

    assert words in offer.progress().error
    assert offer.progress().done == 0


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (Given([1, 2, 3]), "read() must return a list of (key, row)"),
        (Stuck(), "asked for rows after 1, it ended with that row"),
    ],
)
def test_a_source_that_breaks_its_word_is_named(app, source, words):
    offer = declare(app, [], source, ranges=1)

    with pytest.raises(BadSource, match="capped: "):
        app.drain()

    assert f"capped: {words}" in offer.progress().error


def test_a_visit_is_known_by_the_key_that_the_row_has(app, database_url, seen):
    with closing(Articles(database_url, 3)) as articles:
        offer = declare(app, seen, Table(articles.engine.url, "article", key="id"))
        first = offer.visit("2")
        second = offer.visit(2, fresh="1h")
        third = offer.visit("2", fresh="1h")

    assert seen == [{"id": 2, "title": "t2"}]
    assert (first.key, second.key, third.key) == (2, 2, 2)
    assert (first.is_new, second.is_new, third.is_new) == (True, False, False)
