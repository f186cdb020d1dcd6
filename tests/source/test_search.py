"""`SearchIndex` against a strict server of our own, which is not Elasticsearch: see elastic.py."""

import itertools
import logging
import random
import sys
from collections import Counter
from contextlib import closing

import pytest

from tests.server.certificate import Certificates
from tests.source.elastic import Elastic, Index, serving
from windlass import App, BadSource, MirrorSource, SearchIndex, Source, Status

SECRET = "it's a:secret"
# Half of the numbers lie close together, the others far apart, and some are negative.
NUMBERS = [*range(-50, 450), *range(1_000_000, 501_000_000, 1_000_000)]
CODES = [*sorted(f"code-{number}" for number in range(990)), "é-1", "中-2", "🚢-3"]
MAPPING = {"number": "long", "code": "keyword", "title": "text", "title.keyword": "keyword"}


def documents(field, keys):
    """One document for each key, in no order."""
    made = [{field: key, "title": f"t{key}", "state": "on"} for key in keys]
    random.Random(6).shuffle(made)
    return {f"id-{document[field]}": document for document in made}


@pytest.fixture
def elastic():
    elastic = Elastic()
    elastic.indices["article"] = Index(MAPPING, documents("number", NUMBERS))
    elastic.indices["product"] = Index(MAPPING, documents("code", CODES))
    return elastic


@pytest.fixture
def url(elastic):
    with serving(elastic) as url:
        yield url


@pytest.fixture
def article(url):
    with closing(SearchIndex(url, "article", key="number")) as source:
        yield source


@pytest.fixture
def product(url):
    with closing(SearchIndex(url, "product", key="code", page=100)) as source:
        yield source


def test_a_sweep_over_an_index_handles_every_document_once(product, database_url):
    app = App(database_url)
    app.migrate()
    seen = []

    @app.sweep(product, ranges=5, batch=50)
    async def offer(document: dict) -> None:
        seen.append(document)

    with closing(app):
        offer.start()
        assert offer.split(9) == 9
        app.drain()

        assert Counter(each["code"] for each in seen) == dict.fromkeys(CODES, 1)
        assert {each["_id"] for each in seen} == {f"id-{code}" for code in CODES}
        assert len(offer.ranges()) == 9
        assert offer.audit().ok
        assert offer.visit("code-7").status is Status.SUCCEEDED


@pytest.mark.parametrize("has_points_in_time", [True, False])
def test_a_mirror_makes_items_equal_to_an_index(elastic, product, database_url, has_points_in_time):
    elastic.has_points_in_time = has_points_in_time
    app = App(database_url)
    app.migrate()

    @app.rolling(every="10d")
    def stock_level(code: str) -> None: ...

    with closing(app):
        assert stock_level.mirror(product).added == len(CODES)
        del elastic.indices["product"].documents["id-code-7"]
        elastic.indices["product"].documents["new"] = {"code": "code-1000"}

        changed = stock_level.mirror(product)

        assert (changed.added, changed.removed) == (1, 1)
        assert stock_level.mirror(product, dry_run=True).added == 0
    assert elastic.kept == {}


@pytest.mark.parametrize("has_points_in_time", [True, False])
@pytest.mark.parametrize("kind", ["long", "integer"])
def test_the_keys_of_a_mirror_come_in_byte_order(elastic, url, kind, has_points_in_time):
    elastic.has_points_in_time = has_points_in_time
    ends = [] if kind == "integer" else [-(1 << 63), (1 << 63) - 1]
    elastic.indices["article"] = Index({"number": kind}, documents("number", NUMBERS + ends))
    source = SearchIndex(url, "article", key="number", page=30)

    found = list(itertools.chain.from_iterable(source.keys()))

    assert found == sorted(map(str, NUMBERS + ends))
    assert source.present(["7", "600", "07", "x", "-50", "1" * 30]) == {"7", "-50"}
    assert elastic.kept == {}


def test_the_keys_of_a_mirror_are_those_of_one_moment(elastic, product):
    pages = product.keys()
    first = next(pages)
    elastic.indices["product"].documents.clear()

    found = [*first, *itertools.chain.from_iterable(pages)]

    assert found == CODES
    assert product.present(CODES) == set()


@pytest.mark.parametrize("has_points_in_time", [True, False])
def test_a_point_in_time_that_expires_is_not_an_end(
    elastic, product, monkeypatch, has_points_in_time
):
    monkeypatch.setattr("windlass.source.search.index.MOST_HITS", 100)
    elastic.has_points_in_time = has_points_in_time
    pages = product.keys()
    next(pages)
    elastic.now += 301

    with pytest.raises(BadSource, match="has expired; give a longer keep_alive="):
        list(pages)


def test_pages_go_on_where_the_last_one_ended(article):
    found, after = [], None
    while page := article.read(after, 5_000_000, 100):
        assert len(page) <= 100
        found += [key for key, _ in page]
        after = page[-1][0]

    assert found == [number for number in NUMBERS if number <= 5_000_000]
    assert len(article.read(None, None, 1_000_000)) == len(NUMBERS)


def test_ranges_hold_about_equal_documents_although_keys_are_clustered(article, url):
    for source in (article, SearchIndex(url, "article", key="number", page=300)):
        edges = [-51, *source.bounds(10), NUMBERS[-1]]

        counts = [
            sum(begin < number <= end for number in NUMBERS)
            for begin, end in itertools.pairwise(edges)
        ]

        assert len(counts) == 10
        assert max(counts) <= 2 * len(NUMBERS) / 10
    assert len(article.bounds(4_096)) == len(NUMBERS) - 1


def test_the_middle_has_documents_on_both_sides(url):
    source = SearchIndex(url, "article", key="number", page=5)

    for after, upto in ((None, None), (400, None), (None, 7), (448, 1_000_000)):
        middle = source.middle(after, upto)

        assert source.read(after, middle, 1)
        assert source.read(middle, upto, 1)
    assert source.middle(448, 449) is None
    assert source.middle(500, 600) is None


def test_a_query_leaves_documents_out_everywhere(elastic, url):
    for own in ("id-7", "id-8", "id-9"):
        elastic.indices["article"].documents[own]["state"] = "off"
    query = {"term": {"state": "on"}}
    source = SearchIndex(url, "article", key="number", query=query, fields=["title"])

    assert source.read(6, 10, 10) == [(10, {"_id": "id-10", "title": "t10"})]
    assert source.count() == len(NUMBERS) - 3
    assert (source.find(7), source.find(6)) == (None, {"_id": "id-6", "title": "t6"})
    assert source.present(["6", "7"]) == {"6"}
    assert "7" not in itertools.chain.from_iterable(source.keys())
    assert source.middle(6, 10) is None


def test_single_documents_are_found_and_counted(article, product):
    assert article.find(7) == {"_id": "id-7", "number": 7, "title": "t7", "state": "on"}
    assert [article.find(key) for key in (600, "7", True, 1 << 70)] == [None] * 4
    assert product.find("é-1")["code"] == "é-1"
    assert [product.find(key) for key in ("", 7)] == [None] * 2
    assert (article.count(), product.count()) == (len(NUMBERS), len(CODES))
    article.check()
    product.check()
    assert isinstance(article, Source)
    assert isinstance(article, MirrorSource)


@pytest.mark.parametrize(
    ("index", "key", "words"),
    [
        ("offer", "number", "there is no such index; check its name"),
        ("offer-*", "number", "no index has that name"),
        ("article", "size", "has no field 'size'; use a field of type keyword, or one of byte"),
        ("article", "title", "type text cannot be the key, .* use key='title.keyword'"),
        ("article", "price", "type double cannot be the key"),
        ("article,product", "code", "'code' has several types: keyword, long; give it one"),
    ],
)
def test_a_field_that_cannot_be_the_key_is_refused_with_the_cure(elastic, url, index, key, words):
    elastic.indices["article"].mapping = {**MAPPING, "code": "long", "price": "double"}

    with pytest.raises(BadSource, match=words):
        SearchIndex(url, index, key=key).check()


def test_documents_without_a_key_of_their_own_are_refused(elastic, article, product):
    elastic.indices["article"].documents["nameless"] = {"title": "x"}
    with pytest.raises(BadSource, match="1 documents have no 'number'"):
        article.check()

    elastic.indices["article"].documents["twin"] = {"number": 7}
    elastic.indices["product"].documents["twin"] = {"code": "code-7"}
    for call in (
        lambda: article.read(6, None, 1),
        lambda: article.find(7),
        lambda: list(article.keys()),
        lambda: list(product.keys()),
    ):
        with pytest.raises(BadSource, match=r"is not unique, '?(code-)?7'? comes more than once"):
            call()


def test_a_document_with_two_keys_is_refused(elastic, article):
    elastic.indices["article"].documents["id-7"]["number"] = [7, 9]

    with pytest.raises(BadSource, match="one value of its own"):
        article.read(8, None, 10)


def test_an_answer_of_some_shards_only_is_not_an_end(elastic, article):
    elastic.failed_shards = 1

    for call in (lambda: article.read(None, None, 10), lambda: list(article.keys())):
        with pytest.raises(BadSource, match="answered 503"):
            call()
    with pytest.raises(BadSource, match="some of its shards did not answer"):
        article.count()


def test_an_index_without_source_is_refused(elastic, article):
    elastic.indices["article"].keeps_source = False

    with pytest.raises(BadSource, match="does not keep _source"):
        article.read(None, None, 1)


@pytest.mark.parametrize(
    ("given", "header"),
    [
        ({"basic_auth": ("shop", SECRET)}, "Basic c2hvcDppdCdzIGE6c2VjcmV0"),
        ({"api_key": ("shop", SECRET)}, "ApiKey c2hvcDppdCdzIGE6c2VjcmV0"),
        ({"api_key": "c2VjcmV0"}, "ApiKey c2VjcmV0"),
        ({"bearer_auth": "c2VjcmV0"}, "Bearer c2VjcmV0"),
    ],
)
def test_credentials_are_sent_and_never_shown(elastic, url, given, header, caplog):
    caplog.set_level(logging.DEBUG)
    elastic.authorization = header
    source = SearchIndex(url, "article", key="number", **given)
    said = [repr(source), source.name, str(vars(source))]

    assert source.find(7)["number"] == 7

    elastic.may_read = False
    with pytest.raises(
        BadSource, match="may not read it; grant them the privilege read"
    ) as refused:
        source.read(None, None, 1)
    elastic.authorization = "Basic other"
    with pytest.raises(BadSource, match="refused the credentials; check them") as unknown:
        source.read(None, None, 1)
    with pytest.raises(BadSource, match="it asks for credentials; give basic_auth="):
        SearchIndex(url, "article", key="number").count()
    with pytest.raises(BadSource, match=r"may not|refused the credentials"):
        list(source.keys())
    said += [str(refused.value), str(unknown.value), caplog.text]
    assert not [text for text in said if SECRET in text or header.split()[1] in text]


def test_credentials_may_be_part_of_the_address(elastic, url):
    elastic.authorization = "Basic c2hvcDppdCdzIGE6c2VjcmV0"
    with_user = url.replace("//", "//shop:it%27s%20a%3Asecret@")
    source = SearchIndex(with_user, "article", key="number")

    assert source.count() == len(NUMBERS)
    assert (source.name, repr(source)) == (
        f"index 'article' at {url}",
        f"SearchIndex('{url}', 'article', key='number')",
    )


def test_tls_trusts_the_ca_that_is_given(elastic):
    certificates = Certificates()
    certificate, key = certificates.make("server")
    with closing(certificates), serving(elastic, (str(certificate), str(key))) as url:
        trusting = SearchIndex(url, "article", key="number", ca_certs=str(certificates.ca))
        assert trusting.count() == len(NUMBERS)

        careless = SearchIndex(url, "article", key="number", verify_certs=False)
        insecure = pytest.warns(Warning, match="verify_certs=False is insecure")
        with insecure, pytest.warns(Warning, match="Unverified HTTPS request"):
            assert careless.count() == len(NUMBERS)

        with pytest.raises(BadSource, match="certificate is not trusted; give the CA's file"):
            SearchIndex(url, "article", key="number").count()
        with pytest.raises(BadSource, match=r"ca_certs='/nowhere\.pem' is not there"):
            SearchIndex(url, "article", key="number", ca_certs="/nowhere.pem").count()


def test_a_server_that_does_not_fit_the_client_is_named(elastic, url, article):
    elastic.version = (8, 19, 0)
    with pytest.raises(BadSource, match=r"too old for version 9 .* 'elasticsearch<9'"):
        list(article.keys())

    elastic.version = (7, 9, 3)
    with pytest.raises(BadSource, match="too old for version 9"):
        article.read(None, None, 1)

    elastic.version, elastic.is_elasticsearch = (9, 1, 0), False
    with pytest.raises(BadSource, match="OpenSearch cannot be read with it"):
        SearchIndex(url, "article", key="number").count()


def test_a_server_that_is_down_is_named():
    with pytest.raises(BadSource, match=r"at http://127.0.0.1:9: it did not answer: .*refused"):
        SearchIndex("http://127.0.0.1:9", "article", key="number").count()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"url": "127.0.0.1:9200"}, "write it with its port"),
        ({"url": "https://shop:hidden@search.example.org"}, "write it with its port"),
        ({"key": "_id"}, "copy it into a field of type keyword"),
        ({"index": ""}, "is not the name of an index"),
        ({"page": 1}, "give a number of documents, 2 or more"),
        ({"basic_auth": "shop:hidden"}, "the credentials cannot be used"),
        ({"bearer_auth": ("shop", "hidden")}, "the credentials cannot be used"),
        ({"api_key": "hidden", "bearer_auth": "hidden"}, "give one of basic_auth, api_key"),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(given, words):
    usual = {"url": "http://127.0.0.1:9", "index": "article", "key": "number"}

    with pytest.raises(BadSource, match=words) as refused:
        SearchIndex(**{**usual, **given})

    assert "hidden" not in str(refused.value)


def test_the_client_is_asked_for_when_it_is_used(article, monkeypatch):
    monkeypatch.setitem(sys.modules, "elasticsearch", None)

    with pytest.raises(BadSource, match=r"pip install 'windlass\[search\]'"):
        article.count()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"query": {"match": {"title": "x"}}}, r"unknown query \[match\]"),
        ({"from": 10}, "Unknown key"),
        ({"size": 10_001}, "Result window is too large"),
        ({"sort": [{"title": "asc"}]}, "Fielddata is disabled"),
        ({"sort": [{"size": "asc"}]}, "No mapping found"),
        ({"search_after": [1]}, "Sort must contain"),
        ({"sort": [{"number": "asc"}], "search_after": [1, 2]}, "search_after has 2"),
        ({"query": {"term": {"number": 1 << 64}}}, "out of range"),
        ({"query": {"range": {"number": {"gt": "x"}}}}, "For input string"),
        ({"pit": {"id": "x", "keep_alive": "1m"}}, "has expired"),
    ],
)
def test_the_server_refuses_what_elasticsearch_refuses(article, body, words):
    with pytest.raises(BadSource, match=words):
        article._search({"query": {"exists": {"field": "number"}}, **body})


def test_the_server_refuses_what_a_scroll_cannot_have(article):
    body = {"query": {"exists": {"field": "number"}}, "track_total_hits": False, "size": 0}

    with pytest.raises(BadSource, match=r"1: disabling .* 2: \[size\] cannot be \[0\]"):
        article._search(body, scroll="1m")
