"""Sources that are swept: every row once, in order, from any place, and cut into equal parts."""

import csv
import itertools
import json
import threading
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, event, text

from windlass import BadKey, BadSource, MirrorSource, Source, SweepSource
from windlass.database.database import normalise
from windlass.source.contract import decode_key, encode_key
from windlass.source.file import Csv, Lines
from windlass.source.keys import Keys
from windlass.source.pages import Pages
from windlass.source.store.table import Table

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
TYPES = {
    "whole numbers": ("bigint", [-(2**63) + 1, -7, 0, 1, 2, 3, 900, 2**63 - 1]),
    "text": ("varchar(50)", ["", "A", "B", "Z", "aa", "ab", "c", "é", "ü", "漢", "🚢"]),
    "uuid": ("uuid", [UUID(int=number * 7**20) for number in range(12)]),
    "time": ("timestamp", [MIDNIGHT + timedelta(hours=7 * n) for n in range(12)]),
    "date": ("date", [date(2026, 1, day) for day in range(1, 12)]),
}
OWN = {
    ("sqlite", "uuid"): ("text", str),
    ("sqlite", "time"): ("text", str),
    ("sqlite", "date"): ("text", str),
    ("mysql", "uuid"): ("char(36)", str),
    ("mysql", "time"): ("datetime", None),
}


@pytest.fixture
def engine(empty_database_url):
    engine = create_engine(normalise(empty_database_url))
    yield engine
    engine.dispose()


def backend(engine):
    return engine.dialect.name.replace("mariadb", "mysql")


def fill(engine, definition, rows):
    with engine.begin() as connection:
        connection.execute(text(f"create table article ({definition})"))
        if rows:
            names = ", ".join(f":{name}" for name in rows[0])
            connection.execute(
                text(f"insert into article ({', '.join(rows[0])}) values ({names})"), rows
            )


def numbers(engine, values, definition="id bigint primary key, title varchar(50)"):
    fill(engine, definition, [{"id": value, "title": f"t{value}"} for value in values])


def walk(source, after=None, upto=None, limit=3):
    """All rows, page by page, each from where the last one ended."""
    found = []
    while page := source.read(after, upto, limit):
        assert len(page) <= limit
        found += page
        after = decode_key(encode_key(page[-1][0]))
    return found


def parts_of(source, bounds):
    edges = [None, *bounds, None]
    pairs = itertools.pairwise(edges)
    return [[key for key, _ in walk(source, *pair, limit=1_000)] for pair in pairs]


@pytest.mark.parametrize("kind", TYPES)
def test_every_row_comes_once_and_in_order_whatever_the_type_of_the_key(engine, kind):
    column, values = TYPES[kind]
    own_column, make = OWN.get((backend(engine), kind), (column, None))
    values = [make(value) if make else value for value in values]
    fill(engine, f"id {own_column} primary key", [{"id": value} for value in values])

    with closing(Table(engine.url, "article", key="id")) as table:
        table.check_sweep()
        keys = [key for key, _ in walk(table)]
        bounds = table.bounds(3)
        parts = parts_of(table, bounds)
        with engine.connect() as connection:
            ordered = list(connection.scalars(text("select id from article order by id")))

    assert keys == ordered
    assert sorted(map(str, keys)) == sorted(map(str, values))
    assert [key for part in parts for key in part] == keys
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_key_of_several_columns_is_read_in_order(engine):
    rows = [{"shop": shop, "number": number, "x": 1} for shop in "abc" for number in range(5)]
    fill(engine, "shop varchar(9), number int, x int, primary key (shop, number)", rows)

    with closing(Table(engine.url, "article", key=("shop", "number"), columns=["x"])) as table:
        table.check_sweep()
        found = walk(table)
        middle = table.middle(None, None)
        parts = parts_of(table, table.bounds(4))
        one = table.find(("b", 3))

    expected = [(row["shop"], row["number"]) for row in rows]
    assert [key for key, _ in found] == expected
    assert found[0][1] == {"shop": "a", "number": 0, "x": 1}
    assert middle == expected[6]
    assert [len(part) for part in parts] == [3, 4, 4, 4]
    assert one == {"shop": "b", "number": 3, "x": 1}


def test_rows_are_mappings_of_the_columns_that_were_asked_for(engine):
    numbers(engine, range(1, 4))

    with closing(Table(engine.url, "article", key="id")) as table:
        assert table.read(1, None, 1) == [(2, {"id": 2, "title": "t2"})]
        assert table.find(3) == {"id": 3, "title": "t3"}
        assert table.find(9) is None
    with closing(Table(engine.url, "article", key="id", columns=["title"])) as table:
        assert table.read(1, 2, 9) == [(2, {"id": 2, "title": "t2"})]


def test_where_leaves_rows_out(engine):
    numbers(engine, range(1, 11))

    with closing(Table(engine.url, "article", key="id", where="id % 2 = 0 or id = 1")) as table:
        assert [key for key, _ in walk(table)] == [1, 2, 4, 6, 8, 10]
        assert table.count() == 6
        assert table.find(3) is None


def test_a_colon_in_where_begins_no_parameter(engine):
    numbers(engine, range(1, 4))
    where = "title <> ':t2' and title like 't%' and title <> '10\\:30'"

    with closing(Table(engine.url, "article", key="id", where=where)) as table:
        table.check_sweep()
        assert [key for key, _ in walk(table)] == [1, 2, 3]
        assert table.find(2) == {"id": 2, "title": "t2"}
        assert table.plan() is None


@pytest.mark.mostly("sqlite")
def test_what_the_driver_cannot_bind_is_told_as_an_error_of_the_source(engine):
    numbers(engine, [1])

    table = Table(engine.url, "article", key="id")
    statement = text("select :missing")
    with closing(table), pytest.raises(BadSource, match="article in"), table.connect() as connected:
        connected.execute(statement)


@pytest.mark.mostly("sqlite")
def test_a_key_has_as_many_parts_as_there_are_key_columns(engine):
    fill(engine, "a varchar(9), b varchar(9), primary key (a, b)", [{"a": "x", "b": "y"}])

    with closing(Table(engine.url, "article", key=("a", "b"))) as table:
        for key in ("xy", ("x",), ("x", "y", "z"), 7):
            with pytest.raises(BadKey, match="give a tuple of a, b"):
                table.find(key)
        assert table.locate(["x", "y"]) == (("x", "y"), {"a": "x", "b": "y"})
    table = Table(engine.url, "article", key="a")
    with closing(table), pytest.raises(BadKey, match="give a value of a"):
        table.find(("x", "y"))


@pytest.mark.parametrize("kind", ["enum('b', 'a')", "set('b', 'a')"])
def test_a_column_that_is_not_sorted_by_its_text_is_refused(engine, kind):
    if backend(engine) != "mysql":
        pytest.skip("only MySQL and MariaDB have such columns")
    fill(engine, f"id {kind} primary key", [{"id": "a"}, {"id": "b"}])

    table = Table(engine.url, "article", key="id")
    with closing(table), pytest.raises(BadSource, match="whose order is not that of its text"):
        table.check_sweep()


def test_a_moment_is_a_key_even_where_the_server_has_an_hour_twice(engine):
    if backend(engine) != "mysql":
        pytest.skip("only MySQL and MariaDB turn moments into local times")
    with engine.begin() as connection:
        connection.execute(text("create table article (id timestamp primary key)"))
        connection.execute(text("set time_zone = '+05:00'"))
        connection.execute(text("insert into article values ('2026-01-01 05:00:00')"))

    with closing(Table(engine.url, "article", key="id")) as table:
        assert [key for key, _ in walk(table)] == [MIDNIGHT]
        with table.connect() as connection:
            assert connection.scalar(text("select @@session.time_zone")) == "+00:00"


def test_an_engine_of_the_users_own_is_used_and_left_open(engine):
    numbers(engine, range(1, 4))
    table = Table(engine, "article", key="id")

    assert [key for key, _ in walk(table)] == [1, 2, 3]
    table.close()

    assert [key for key, _ in walk(table)] == [1, 2, 3]


def test_clustered_keys_are_cut_into_parts_with_equal_rows(engine):
    values = [*range(1, 301), *range(10**9, 10**9 + 300), *range(10**15, 10**15 + 300)]
    numbers(engine, values)

    with closing(Table(engine.url, "article", key="id")) as table:
        parts = parts_of(table, table.bounds(9))
        middle = table.middle(None, 10**9 + 299)

    assert {len(part) for part in parts} == {100}
    assert middle == 300


def test_no_statement_skips_rows_by_number(engine):
    numbers(engine, range(1, 50))
    table = Table(engine, "article", key="id")
    statements = []
    event.listen(
        engine, "before_cursor_execute", lambda *args: statements.append((args[2].lower(), args[3]))
    )

    walk(table, limit=10)
    table.bounds(4)
    table.middle(5, 40)
    table.edge(3, None, 10)

    assert len(statements) > 10
    # SQLite's LIMIT is written with an offset of 0.
    assert [
        statement for statement, values in statements if "offset" in statement and values[-1] != 0
    ] == []


def test_a_table_of_one_row_or_none_has_no_middle(engine):
    numbers(engine, [7])

    with closing(Table(engine.url, "article", key="id")) as table:
        assert table.middle(None, None) is None
        assert table.middle(7, None) is None
        assert table.bounds(30) == []
        assert table.edge(None, None, 5) == 7
        assert table.edge(7, None, 5) is None


def test_a_key_that_is_null_or_comes_twice_is_refused(engine):
    fill(engine, "id bigint, x int", [{"id": 1}, {"id": 2}, {"id": 2}, {"id": None}])

    for where, words in ((None, "id is null in some row"), ("id > 0", "2 comes more than once")):
        table = Table(engine.url, "article", key="id", where=where)
        with closing(table), pytest.raises(BadSource, match=words):
            table.check_sweep()
    with closing(Table(engine.url, "article", key="id", where="id < 2")) as table:
        table.check_sweep()


def test_what_is_not_there_is_named(engine):
    numbers(engine, [1])

    for table, words in (
        (Table(engine.url, "articles", key="id"), "no such table; similar: article"),
        (Table(engine.url, "article", key="code"), "no column 'code'"),
        (Table(engine.url, "article", key="id", columns=["name"]), "no column 'name'"),
    ):
        with closing(table), pytest.raises(BadSource, match=words):
            table.check_sweep()


@pytest.mark.parametrize("key", [(), ("a", "a"), ("a", ""), ("a", 7)])
def test_what_are_no_columns_is_refused(key):
    with pytest.raises(BadSource, match="give the column's name"):
        Table("sqlite:///shop.db", "product", key=key)
    with pytest.raises(BadSource, match="is not a list of columns"):
        Table("sqlite:///shop.db", "product", key="id", columns="title")
    with pytest.raises(BadSource, match="not a condition"):
        Table("sqlite:///shop.db", "product", key="id", where="")


def test_a_key_without_an_index_has_a_plan_that_sorts(engine):
    numbers(engine, range(1, 100), "id bigint not null, title varchar(50)")

    with closing(Table(engine.url, "article", key="id")) as table:
        plan = table.plan()
    with engine.begin() as connection:
        connection.execute(text("create index article_id on article (id)"))
    with closing(Table(engine.url, "article", key="id")) as table:
        assert table.plan() is None

    assert plan is not None
    assert "article" in plan or "TEMP B-TREE" in plan


def test_a_plan_is_told_whatever_signs_where_has(engine):
    numbers(engine, range(1, 100), "id bigint not null, title varchar(50)")
    where = "title like 't%' and id % 2 = 1 and title <> ':a'"

    with closing(Table(engine.url, "article", key="id", where=where)) as table:
        assert table.plan() is not None


def test_only_a_table_with_one_key_and_all_rows_is_mirrored(engine):
    numbers(engine, [1])

    for options in ({"key": ("id", "title")}, {"key": "id", "where": "id > 0"}):
        table = Table(engine.url, "article", **options)
        with closing(table), pytest.raises(BadSource, match="can be mirrored"):
            table.check()


# Plain numbers


@given(st.integers(-50, 50), st.integers(0, 100), st.integers(1, 20), st.integers(1, 10))
def test_numbers_are_cut_into_parts_that_hold_each_of_them_once(begin, length, ranges, limit):
    source = Keys(begin, begin + length - 1)
    bounds = source.bounds(ranges)

    parts = parts_of(source, bounds)

    assert [key for part in parts for key in part] == list(range(begin, begin + length))
    assert len(parts) == max(1, min(ranges, length))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert [row for _, row in walk(source, limit=limit)] == list(range(begin, begin + length))


@given(st.integers(1, 50), st.data())
def test_the_middle_of_numbers_leaves_some_on_both_sides(length, data):
    source = Keys(1, length)
    after = data.draw(st.none() | st.integers(0, length))
    upto = data.draw(st.none() | st.integers(0, length))

    middle = source.middle(after, upto)

    keys = [key for key, _ in walk(source, after, upto)]
    assert (middle is None) == (len(keys) < 2)
    if middle is not None:
        assert middle in keys[:-1]


def test_numbers_that_are_none_are_refused():
    with pytest.raises(BadSource, match="not a whole number"):
        Keys(1, "9")
    assert Keys(1, 5).find(5) == 5
    assert Keys(1, 5).find(6) is None
    assert Keys(5, 1).read(None, None, 5) == []


# Files

lines = st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20), max_size=40)
relaxed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@relaxed
@given(lines, st.integers(1, 8), st.booleans())
def test_lines_come_once_each_in_whatever_parts(tmp_path, rows, ranges, ends):
    path = tmp_path / "file.txt"
    path.write_bytes("\n".join(rows).encode() + (b"\n" if ends and rows else b""))
    source = Lines(path)
    expected = path.read_text(encoding="utf-8-sig").split("\n")
    if expected[-1] == "":
        expected.pop()

    bounds = source.bounds(ranges)
    parts = [walk(source, *pair) for pair in zip([None, *bounds], [*bounds, None], strict=True)]

    assert [row for part in parts for _, row in part] == expected
    assert all(source.find(key) == row for key, row in walk(source))


@relaxed
@given(
    st.lists(st.tuples(st.integers(), st.text(st.sampled_from('ab,"\n'), max_size=8)), max_size=30),
    st.integers(1, 6),
)
def test_rows_with_line_ends_in_quotes_come_whole(tmp_path, rows, ranges):
    path = tmp_path / "file.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("code", "note"), *rows])
    source = Csv(path, key="code")
    source.check()

    bounds = source.bounds(ranges)
    parts = [walk(source, *pair) for pair in zip([None, *bounds], [*bounds, None], strict=True)]

    found = [row for part in parts for _, row in part]
    assert found == [{"code": str(code), "note": note} for code, note in rows]
    assert all(source.find(key) == row for key, row in walk(source))


def test_the_middle_of_a_file_has_rows_on_both_sides(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("".join(f"line {number}\n" for number in range(1_000)))
    source = Lines(path)

    middle = source.middle(None, None)

    assert 450 < len(walk(source, None, middle, limit=2_000)) < 550
    assert 900 < source.count() < 1_100
    path.write_text("only one\n")
    assert source.middle(None, None) is None


def test_a_file_that_is_not_there_or_lacks_the_column_is_refused(tmp_path):
    with pytest.raises(BadSource, match="No such file"):
        Lines(tmp_path / "none.txt").check()
    (tmp_path / "file.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BadSource, match="no column 'code'; its columns: a, b"):
        Csv(tmp_path / "file.csv", key="code").check()


# Web services


class Service(BaseHTTPRequestHandler):
    """Hands out the numbers from 1 to 25, ten at most."""

    def do_GET(self):
        parts = urlsplit(self.path)
        asked = parse_qs(parts.query)
        status, answer = 200, {"items": []}
        if parts.path == "/broken":
            status = 503
        elif parts.path.startswith("/one/"):
            number = int(parts.path.removeprefix("/one/"))
            status, answer = (200, {"id": number}) if number <= 25 else (404, {})
        elif parts.path == "/from":
            after = int(asked.get("after", ["1"])[0])
            answer = [{"id": number} for number in range(after, after + 10)]
        elif parts.path == "/odd":
            answer = {"rows": 7}
        else:
            after = int(asked.get("after", ["0"])[0])
            most = min(10, int(asked["limit"][0]))
            numbers = range(after + 1, min(25, after + most) + 1)
            answer = {"items": [{"id": number} for number in numbers]}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture
def service():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(10)


def test_a_web_service_is_read_page_by_page_however_long_they_are(service):
    source = Pages(f"{service}/article", one=f"{service}/one/{{key}}")

    found = walk(source, limit=1_000)

    assert [key for key, _ in found] == list(range(1, 26))
    assert [key for key, _ in walk(source, 5, 12)] == list(range(6, 13))
    assert (source.bounds(9), source.middle(None, None)) == ([], None)
    assert (source.find(7), source.find(70)) == ({"id": 7}, None)


def test_a_web_service_that_answers_otherwise_is_named(service):
    for source, words in (
        (Pages(f"{service}/broken"), "answered 503"),
        (Pages(f"{service}/odd"), "neither a list nor an object with 'items'"),
        (Pages(f"{service}/article", key="code"), "no 'code'"),
        (Pages("http://127.0.0.1:9/x"), "did not answer"),
    ):
        with pytest.raises(BadSource, match=words):
            source.read(None, None, 10)
    with pytest.raises(BadSource, match="begin it with https://"):
        Pages("article")


def test_a_web_service_that_answers_from_a_key_on_is_refused(service):
    source = Pages(f"{service}/from")

    assert len(source.read(None, None, 10)) == 10
    with pytest.raises(BadSource, match="rows after 10, the service answered with that row again"):
        source.read(10, None, 10)


def test_all_of_them_can_be_swept(tmp_path):
    for source in (
        Keys(1, 2),
        Lines(tmp_path / "a"),
        Csv(tmp_path / "b", key="code"),
        Pages("http://example.org"),
        Table("sqlite:///a.db", "b", key="c"),
    ):
        assert isinstance(source, Source)
    assert SweepSource is Source
    assert isinstance(source, MirrorSource)
    assert not isinstance(Keys(1, 2), MirrorSource)


def test_a_source_of_ones_own_may_inherit_the_protocol():
    class Own(Source):
        def bounds(self, ranges):
            return []

        def middle(self, after, upto):
            return None

        def read(self, after, upto, limit):
            return [(1, "one")] if after is None else []

    assert isinstance(Own(), Source)
    assert walk(Own()) == [(1, "one")]


def test_a_moment_has_one_text_in_whatever_zone_it_is_shown():
    summer = datetime.fromisoformat("2026-06-01T12:00:00+02:00")

    assert encode_key(summer) == encode_key(summer.astimezone(UTC))
