"""Sources as JSON: what was described is opened again, and no secret is written."""

import pytest

from windlass import BadSource, Csv, Keys, Lines, Pages, Table
from windlass.database.database import normalise
from windlass.source.given import describe_source, open_source, read_source

SERVER = "postgresql://shop:secret@db.example/shop"
ROWS = "https://shop.example/rows"
SECRET = {"Authorization": "secret"}


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("id;name\n7;bolt\n")
    return tmp_path / "a.csv"


def test_files_are_opened_by_their_whole_path(file, monkeypatch):
    text = describe_source(Csv("a.csv", key="id", delimiter=";", encoding="latin-1"))
    lines = describe_source(Lines("a.csv"))
    monkeypatch.chdir("/")

    again = open_source(text)

    assert again.read(None, None, 9)[0][1] == {"id": "7", "name": "bolt"}
    assert (again.encoding, again.path) == ("iso8859-1", file)
    assert open_source(lines).path == file


def test_numbers_and_pages():
    pages = Pages(f"{ROWS}?kind=a", key="sku", items="rows", timeout="5s")

    assert repr(open_source(describe_source(Keys(3, 9)))) == "Keys(3, 9)"
    assert open_source(describe_source(pages)).fields == pages.fields


def test_headers_are_not_written_and_come_from_the_declared_source():
    own, given = Pages(ROWS, headers=SECRET), Pages(f"{ROWS}/new", headers=SECRET)

    text = describe_source(given, declared=own)

    assert "secret" not in text
    assert open_source(text, declared=own).own_headers == SECRET
    with pytest.raises(BadSource, match="headers may be secrets and are not stored"):
        describe_source(given)
    with pytest.raises(BadSource, match="headers may be secrets"):
        describe_source(Pages("https://other.example/rows", headers=SECRET), declared=own)


def test_passwords_are_not_written_and_come_from_a_known_database():
    given = Table(SERVER, "import_7", key=("shop", "id"), columns=["name"], where="ok")

    text = describe_source(given)

    assert "secret" not in text
    assert open_source(text, databases=[normalise(SERVER)]) == given
    assert open_source(text, declared=Table(SERVER, "other", key="id")) == given
    with pytest.raises(BadSource, match="its password is not stored with the run"):
        open_source(text)


def test_a_table_without_a_password_is_opened_anywhere(tmp_path):
    given = Table(f"sqlite:///{tmp_path}/shop.db", "product", key="id")

    assert open_source(describe_source(given)) == given


class Own:
    def __init__(self, first):
        self.first = first

    def describe(self):
        return {"first": self.first}

    def bounds(self, ranges):
        return []

    def middle(self, after, upto):
        return None

    def read(self, after, upto, limit):
        return []


def test_a_source_of_ones_own_needs_a_declared_one_of_its_class():
    text = describe_source(Own(7), declared=Own(1))

    assert open_source(text, declared=Own(1)).first == 7
    with pytest.raises(BadSource, match="other workers cannot open a Own"):
        describe_source(Own(7))
    with pytest.raises(BadSource, match="cannot open a source of the type 'own'"):
        open_source(text)


@pytest.mark.parametrize(
    ("text", "column", "declared", "found"),
    [
        ("a.csv", "id", None, "Csv('a.csv', key='id')"),
        ("a.txt", None, None, "Lines('a.txt')"),
        ("b.data", None, Csv("x", key="sku", delimiter=";"), "Csv('b.data', key='sku')"),
        ('{"keys": {"begin": 1, "end": 3}}', None, None, "Keys(1, 3)"),
        ("https://a.example/x", "sku", None, "Pages('https://a.example/x', key='sku')"),
    ],
)
def test_what_a_person_names(text, column, declared, found):
    assert repr(read_source(text, column=column, declared=declared)) == found


def test_what_a_person_names_wrongly():
    with pytest.raises(BadSource, match="say by which column people know a row"):
        read_source("a.csv")
    with pytest.raises(BadSource, match="write it as"):
        read_source("{}")
