"""What the shop has when it opens: products, articles on offer, and a first delivery."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from sqlalchemy import BigInteger, Column, Connection, Inspector, MetaData, String, Table, inspect
from sqlalchemy.schema import DropTable

from windlass.errors import BadDatabase
from windlass.store.database import Database

PRODUCTS = 20_000
ARTICLES = 100_000
AT_ONCE = 5_000
HOUR = 3_600

THINGS = (
    "anchor",
    "barometer",
    "bell",
    "bilge-pump",
    "block",
    "boathook",
    "bollard",
    "bucket",
    "buoy",
    "chain",
    "chart",
    "chronometer",
    "cleat",
    "compass",
    "deck-brush",
    "dinghy",
    "divider",
    "ensign",
    "fender",
    "flare",
    "foghorn",
    "hammock",
    "hawser",
    "jib",
    "keel-bolt",
    "ladder",
    "lantern",
    "life-vest",
    "mainsail",
    "marlinspike",
    "oar",
    "oilskin",
    "pulley",
    "rope",
    "rudder",
    "sextant",
    "shackle",
    "telescope",
    "tiller",
    "winch",
)
VARIANTS = PRODUCTS // len(THINGS)
# The ones that customers buy: one of each thing.
SOLD = tuple(f"{thing}-001" for thing in THINGS)

metadata = MetaData()
product = Table("shop_product", metadata, Column("code", String(40), primary_key=True))
article = Table(
    "shop_article",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("code", String(40), nullable=False),
    # Seconds since the epoch; null once the offer was taken off the page.
    Column("offer_ends_at", BigInteger),
)


def require_empty(database: Database) -> None:
    """Refuse a database in which something is that is not ours to remove."""
    there = sorted(database.read(_names))
    if there:
        raise BadDatabase(
            f"{database.name} is not empty: it has {', '.join(there[:3])}"
            f"{' and more' if len(there) > 3 else ''}; the demo removes its tables at the end, so "
            "give it an empty database of its own"
        )


def fill(database: Database) -> None:
    """Make the tables of the shop and fill them."""
    now = int(time.time())

    def make(connection: Connection) -> None:
        metadata.create_all(connection)
        for table, rows in ((product, _products()), (article, _articles(now))):
            for part in _parts(rows):
                connection.execute(table.insert(), part)

    database.write(make)


def remove(database: Database) -> None:
    """Remove what the demo has made. The database was empty: nothing else has these names."""

    def drop(connection: Connection) -> None:
        found = inspect(connection)
        quote = connection.dialect.identifier_preparer.quote
        for view in _ours(found.get_view_names()):
            connection.exec_driver_sql(f"drop view {quote(view)}")
        left = MetaData()
        left.reflect(connection, only=lambda name, _: bool(_ours([name])))
        for table in reversed(left.sorted_tables):
            connection.execute(DropTable(table))

    database.write(drop)


def codes() -> Iterator[str]:
    """The code of each product."""
    for thing in THINGS:
        for number in range(1, VARIANTS + 1):
            yield f"{thing}-{number:03d}"


def _products() -> Iterator[dict[str, object]]:
    return ({"code": code} for code in codes())


def _articles(now: int) -> Iterator[dict[str, object]]:
    """Most offers stand for hours yet; some have ended, and some end while one looks."""
    rolled = random.Random(7)
    for number in range(1, ARTICLES + 1):
        yield {
            "id": number,
            "code": f"{THINGS[number % len(THINGS)]}-{number % VARIANTS + 1:03d}",
            "offer_ends_at": now + rolled.randint(-HOUR // 10, 6 * HOUR),
        }


def _parts(rows: Iterator[dict[str, object]]) -> Iterator[list[dict[str, object]]]:
    part: list[dict[str, object]] = []
    for row in rows:
        part.append(row)
        if len(part) == AT_ONCE:
            yield part
            part = []
    if part:
        yield part


def _names(connection: Connection) -> set[str]:
    found: Inspector = inspect(connection)
    return {*found.get_table_names(), *found.get_view_names()}


def _ours(names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(("windlass_", "shop_"))]
