"""Files that are swept: read right from any place, by any process, whatever is in them."""

from contextlib import closing

import pytest

from tests.sweep.offer import declare
from windlass import App, BadSource, Csv, Lines


def walk(source, after=None, upto=None, limit=3):
    found = []
    while page := source.read(after, upto, limit):
        found += page
        after = page[-1][0]
    return found


@pytest.fixture
def path(tmp_path):
    return tmp_path / "product.csv"


@pytest.fixture
def app(tmp_path):
    with closing(App(f"sqlite:///{tmp_path / 'windlass.db'}")) as app:
        app.migrate()
        yield app


def test_a_process_that_reads_a_later_range_first_knows_the_columns(path):
    path.write_text("code,price\nA1,10\nA2,20\n")
    place = len("code,price\nA1,10\n")

    assert Csv(path, key="code").read(place, None, 9) == [
        (len(path.read_bytes()), {"code": "A2", "price": "20"})
    ]


def test_a_quote_in_a_column_without_quotes_is_named_with_its_place(path):
    path.write_text('code,note\nA1,ok\nA2,5" pipe\nA3,6" pipe\nA4,ok\n')
    source = Csv(path, key="code")

    assert source.read(None, None, 1)[0][1]["code"] == "A1"
    with pytest.raises(BadSource, match=r"product\.csv: in the row that begins at byte 16 a quote"):
        walk(source)


def test_a_quote_that_is_never_closed_does_not_take_in_the_whole_file(path, monkeypatch):
    monkeypatch.setattr("windlass.source.file.LONGEST_ROW", 100)
    path.write_text('code,note\nA1,"open\n' + "A2,x\n" * 100)

    with pytest.raises(BadSource, match="begins at byte 10 a quote is not closed"):
        walk(Csv(path, key="code"))


def test_a_row_that_the_reader_refuses_is_named_with_its_place(path):
    path.write_text(f"code,note\nA1,{'x' * 200_000}\n")

    with pytest.raises(BadSource, match="begins at byte 10 cannot be read: field larger"):
        walk(Csv(path, key="code"))


@pytest.mark.parametrize("row", [",10", '"",10'])
def test_a_row_without_its_key_is_named_with_its_place(path, row):
    path.write_text(f"code,price\nA1,10\n{row}\n")

    with pytest.raises(BadSource, match="begins at byte 17 has no 'code'"):
        walk(Csv(path, key="code"))


def test_empty_lines_of_a_csv_are_no_rows(path):
    path.write_text("code,price\nA1,10\n\nA2,20\n\n\n")
    source = Csv(path, key="code")

    assert [row["code"] for _, row in walk(source, limit=1)] == ["A1", "A2"]


def test_line_ends_of_other_systems_are_kept_inside_quotes_only(path):
    path.write_bytes(b'code,note\r\nA1,"x\r\ny"\r\nA2,z\r\n')

    rows = [row for _, row in walk(Csv(path, key="code"))]

    assert rows == [{"code": "A1", "note": "x\r\ny"}, {"code": "A2", "note": "z"}]


def test_broken_bytes_come_as_text_that_can_be_stored(path):
    path.write_bytes(b"code,note\nA1,caf\xe9\nA2,ok\n")

    assert [row for _, row in walk(Lines(path))] == ["code,note", r"A1,caf\xe9", "A2,ok"]
    assert [row["note"] for _, row in walk(Csv(path, key="code"))] == [r"caf\xe9", "ok"]
    assert [row for _, row in walk(Lines(path, encoding="latin-1"))][1] == "A1,café"


@pytest.mark.parametrize("encoding", ["utf-8", "UTF-8-SIG"])
def test_a_mark_at_the_begin_is_not_part_of_the_first_row(path, encoding):
    path.write_bytes(b"\xef\xbb\xbfcode,price\nA1,10\n")
    source = Csv(path, key="code", encoding=encoding)
    source.check()
    lines = Lines(path, encoding=encoding)

    assert walk(source) == [(20, {"code": "A1", "price": "10"})]
    assert walk(lines) == [(14, "code,price"), (20, "A1,10")]
    assert (lines.find(14), lines.find(3)) == ("code,price", None)


def test_there_is_no_row_in_the_middle_of_a_line(path):
    path.write_text("code,price\nA1,10\nA2,20")
    lines, rows = Lines(path), Csv(path, key="code")
    ends = {11: "code,price", 17: "A1,10", 22: "A2,20"}

    assert [lines.find(place) for place in range(30)] == [ends.get(place) for place in range(30)]
    assert [place for place in range(30) if rows.find(place)] == [17, 22]


def test_a_long_row_is_found_by_its_end(path):
    long = "y\n" * 60_000
    path.write_text(f'code,note\nA1,x\nA2,"{long}"\nA3,z\n')
    source = Csv(path, key="code")

    assert all(source.find(place) == row for place, row in walk(source))
    assert len(walk(source)) == 3


@pytest.mark.parametrize("encoding", ["nope", "utf-16", "hex", 7])
def test_an_encoding_that_cannot_be_read_is_refused_when_it_is_declared(path, encoding):
    with pytest.raises(BadSource, match="encoding="):
        Lines(path, encoding=encoding)


@pytest.mark.parametrize("delimiter", [";;", "", '"', "\n", 7])
def test_what_cannot_be_between_columns_is_refused_when_it_is_declared(path, delimiter):
    with pytest.raises(BadSource, match="delimiter="):
        Csv(path, key="code", delimiter=delimiter)


def test_a_csv_is_read_once_to_be_cut(path, monkeypatch):
    path.write_text("code,note\n" + "".join(f'A{n},"x\ny"\n' for n in range(20_000)))
    source = Csv(path, key="code")
    read = []
    cut = source._end_of_row

    def counted(file, begin, place):
        read.append(place - begin)
        return cut(file, begin, place)

    monkeypatch.setattr(source, "_end_of_row", counted)
    bounds = source.bounds(100)

    assert len(bounds) == 99
    assert sum(read) <= path.stat().st_size


def test_a_handler_of_keys_gets_the_column_that_is_the_key(path, app):
    path.write_text("code,price\nA1,10\nA2,20\nA3,30\n")
    seen = []
    declare(app, seen, Csv(path, key="code"), ranges=1, key_only=True)

    app.drain()

    assert seen == ["A1", "A2", "A3"]


def test_a_row_of_a_csv_is_visited_by_its_key_or_by_its_place(path, app):
    path.write_text("code,price\nA1,10\nA2,20\n")
    seen = []
    offer = declare(app, seen, Csv(path, key="code"), key_only=True)

    by_key = offer.visit("A2")
    by_place = offer.visit(len(path.read_bytes()), fresh="1h")

    assert seen == ["A2"]
    assert by_key.key == "A2"
    assert not by_place.is_new
