"""Sources that are given at the start of a run: as JSON they are in its row, so every worker opens
the same.

No password, no header and no connection is ever written: what was described without them gets
them from where they are, from the source that the sweep declares or from the app's own databases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NoReturn

import msgspec

from windlass.database.database import URL
from windlass.database.url import normalise, place_of
from windlass.errors import BadSource
from windlass.source.contract import SweepSource, name_of
from windlass.source.file import Csv, Lines
from windlass.source.keys import Keys
from windlass.source.pages import Pages
from windlass.source.store.table import Table

GIVEN = "each start gives its own source"


class GivenAtStart:
    """Stands for the source of a sweep that declares none: each start gives one."""

    name = "no source of its own"

    def bounds(self, ranges: int) -> Sequence[Any]:
        self._refuse()

    def middle(self, after: Any | None, upto: Any | None) -> Any | None:
        self._refuse()

    def read(self, after: Any | None, upto: Any | None, limit: int) -> Sequence[tuple[Any, Any]]:
        self._refuse()

    def find(self, key: Any) -> Any | None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise BadSource(
            f"the sweep has no source of its own: {GIVEN}, start(source=Csv(path, ...))"
        )


class Unreadable(GivenAtStart):
    """Stands for a source that this process cannot open, and says why whenever it is read."""

    def __init__(self, problem: Exception) -> None:
        self.name = f"a source that cannot be opened here ({problem})"
        self._problem = problem

    def _refuse(self) -> NoReturn:
        raise self._problem


def describe_source(source: object, *, declared: object = None) -> str:
    """What a source is, as JSON that `open_source` reads; BadSource if it cannot be written."""
    made = _described(source, declared)
    try:
        return msgspec.json.encode(made).decode()
    except TypeError as problem:
        raise BadSource(f"{name_of(source)}: it cannot be described as JSON: {problem}") from None


def open_source(
    text: str, *, declared: object = None, databases: Iterable[URL] = ()
) -> SweepSource:
    """The source that `describe_source` described; BadSource if it cannot be opened here."""
    ((what, given),) = msgspec.json.decode(text).items()
    own: Any = type(declared)
    match what:
        case "csv":
            return Csv(**given)
        case "lines":
            return Lines(**given)
        case "keys":
            return Keys(**given)
        case "pages":
            return Pages(**given, headers=_headers_of(declared, given["url"]))
        case "table":
            return _open_table(given, declared, databases)
        case "own" if own.__qualname__ == given["class"]:
            made: SweepSource = own(**given["fields"])
            return made
    raise BadSource(f"this process cannot open a source of the type {what!r}; upgrade its code")


def _described(source: object, declared: object) -> dict[str, Any]:
    """The name of the type, with its fields. A class derived from one of ours is not that one."""
    kind: Any = type(source)
    made: Any = source
    if kind is Csv:
        own = {"key": made.key, "delimiter": made.delimiter}
        return {"csv": {"path": str(made.path.absolute()), "encoding": made.encoding, **own}}
    if kind is Lines:
        return {"lines": {"path": str(made.path.absolute()), "encoding": made.encoding}}
    if kind is Keys:
        return {"keys": {"begin": made.begin, "end": made.end}}
    if kind is Pages:
        return {"pages": _pages(made, declared)}
    if kind is Table:
        return {"table": _table(made)}
    describe = getattr(source, "describe", None)
    if describe is not None and kind is type(declared):
        return {"own": {"class": kind.__qualname__, "fields": describe()}}
    raise BadSource(
        f"{name_of(source)}: other workers cannot open a {kind.__name__} that is given at start; "
        "give a Csv, Lines, Table, Keys or Pages, or declare the sweep with a source of this class "
        "that has describe(), the arguments to make it again"
    )


def _pages(source: Pages, declared: object) -> dict[str, Any]:
    fields = source.fields
    if source.own_headers and _headers_of(declared, source.url) != source.own_headers:
        raise BadSource(
            f"{source.name}: headers may be secrets and are not stored; declare the sweep with "
            "Pages of the same host that have these headers"
        )
    return fields


def _headers_of(declared: object, url: str) -> Mapping[str, str] | None:
    """The headers of the declared source, if it is the same service."""
    if not isinstance(declared, Pages) or not declared.is_service_of(url):
        return None
    return declared.own_headers


def _table(source: Table) -> dict[str, Any]:
    given = source.fields
    url = normalise(given["url"])
    # A password stays where it is; `_open_table` finds it there.
    given["has_password"] = bool(url.password) or source.asks_for_password
    given["url"] = url._replace(password=None).render_as_string(hide_password=False)
    return given


def _open_table(given: dict[str, Any], declared: object, databases: Iterable[URL]) -> Table:
    url, needs = normalise(given.pop("url")), given.pop("has_password")
    if not needs:
        return Table(url, **given)
    place = place_of(url)
    if isinstance(declared, Table) and place_of(declared.url) == place:
        return declared.sibling(**given)
    for known in databases:
        if place_of(known) == place and known.username == url.username:
            return Table(url.set(password=known.password), **given)
    raise BadSource(
        f"{given['table']} in {url.render_as_string(hide_password=True)}: its password is not "
        "stored with the run; declare the sweep with a Table of that database, or use the app's own"
    )


def read_source(text: str, *, column: str | None = None, declared: object = None) -> SweepSource:
    """The source that a person names: a path, an address, or JSON as `describe_source` makes it.

    A file is read as the declared source reads its own; else one that ends with .csv or .tsv has
    columns, and any other lines.
    """
    if text.lstrip().startswith("{"):
        try:
            return open_source(text, declared=declared)
        except (msgspec.DecodeError, AttributeError, KeyError, TypeError, ValueError) as problem:
            raise BadSource(
                f"source {text!r} cannot be read: {problem}; write it as "
                '{"keys": {"begin": 1, "end": 100}}, or give a path'
            ) from None
    if text.startswith(("http://", "https://")):
        known = declared.fields if isinstance(declared, Pages) else {}
        own = {"url": text, "key": column or known.get("key", "id")}
        return Pages(**{**known, **own}, headers=_headers_of(declared, text))
    ending = PurePath(text).suffix.lower()
    like = declared if isinstance(declared, Csv) else None
    if like is None and column is None and ending not in (".csv", ".tsv"):
        encoding = declared.encoding if isinstance(declared, Lines) else "utf-8"
        return Lines(text, encoding=encoding)
    key = column or (like.key if like is not None else None)
    if key is None:
        raise BadSource(f"{text}: say by which column people know a row, such as --column id")
    separator = like.delimiter if like is not None else "\t" if ending == ".tsv" else ","
    return Csv(text, key=key, delimiter=separator, encoding=like.encoding if like else "utf-8")
