"""The tables of the shop when it opens: products and articles on offer."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from itertools import islice

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Insert,
    Inspector,
    Integer,
    MetaData,
    String,
    Table,
    inspect,
    select,
    update,
)

from windlass.database.database import Database
from windlass.errors import BadDatabase

PRODUCTS = 20_000
ARTICLES = 100_000
AT_ONCE = 1_000
HOUR = 3_600

# fmt: off
THINGS = (
    "anchor", "barometer", "bell", "bilge-pump", "block", "boathook", "bollard", "bucket",
    "buoy", "chain", "chart", "chronometer", "cleat", "compass", "deck-brush", "dinghy",
    "divider", "ensign", "fender", "flare", "foghorn", "hammock", "hawser", "jib", "keel-bolt",
    "ladder", "lantern", "life-vest", "mainsail", "marlinspike", "oar", "oilskin", "pulley",
    "rope", "rudder", "sextant", "shackle", "telescope", "tiller", "winch",
)
# fmt: on
VARIANTS = PRODUCTS // len(THINGS)
# Customers buy one variant of each thing.
SOLD = tuple(f"{thing}-001" for thing in THINGS)

metadata = MetaData()
product = Table(
    "shop_product",
    metadata,
    Column("code", String(40), primary_key=True),
    # What the other system had on hand, and when it was asked, in milliseconds since the epoch.
    Column("quantity", Integer),
    Column("asked_at", BigInteger),
)
article = Table(
    "shop_article",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("code", String(40), nullable=False),
    # Seconds since the epoch; null after the offer was removed from the page.
    Column("offer_ends_at", BigInteger),
)


def require_empty(database: Database) -> None:
    """Refuse a database that has tables or views: the demo removes its tables at the end."""
    found = sorted(database.read(_names))
    if found:
        raise BadDatabase(
            f"{database.name} is not empty: it has {', '.join(found[:3])}"
            f"{' and more' if len(found) > 3 else ''}; the demo removes its tables at the end, so "
            "give it an empty database"
        )


def fill(database: Database) -> None:
    """Create and fill the tables of the shop."""
    now = int(time.time())

    def make(connection: Connection) -> None:
        metadata.create_all(connection)
        rows = ({"code": code, "quantity": None, "asked_at": None} for code in codes())
        while part := list(islice(rows, AT_ONCE)):
            connection.execute(product.insert().values(part))
        connection.execute(article.insert().values(list(islice(_articles(now), AT_ONCE))))
        count = AT_ONCE
        while count < ARTICLES:
            connection.execute(_copied(count))
            count = min(2 * count, ARTICLES)

    database.write(make)


def note_quantity(connection: Connection, code: str, quantity: int) -> None:
    """Keep what the other system has on hand of a product, for the pages of the shop."""
    connection.execute(
        update(product)
        .where(product.c.code == code)
        .values(quantity=quantity, asked_at=int(time.time() * 1_000))
    )


def change(connection: Connection, code: str, *, is_new: bool) -> None:
    """Add a product to the catalogue, or remove it; triggers tell `stock_level`."""
    connection.execute(product.delete().where(product.c.code == code))
    if is_new:
        connection.execute(product.insert().values(code=code))


def remove(database: Database) -> None:
    """Remove the tables of the demo. The database was empty, so nothing else has these names."""

    def drop(connection: Connection) -> None:
        found = inspect(connection)
        quote = connection.dialect.identifier_preparer.quote
        views, tables = _ours(found.get_view_names()), _ours(found.get_table_names())
        for sort, names in (("view", views), ("table", tables)):
            if names:
                listed = ", ".join(map(quote, names))
                connection.exec_driver_sql(f"drop {sort} {listed}")
        if connection.dialect.supports_sequences:
            # Sequences that belong to a table were dropped with it.
            for name in _ours(inspect(connection).get_sequence_names()):
                connection.exec_driver_sql(f"drop sequence {quote(name)}")

    database.write(drop)


def codes() -> Iterator[str]:
    """The codes of all products."""
    for thing in THINGS:
        for number in range(1, VARIANTS + 1):
            yield f"{thing}-{number:03d}"


def _articles(now: int) -> Iterator[dict[str, object]]:
    """Most offers last for hours; some have ended, and some end during the demo."""
    rolled = random.Random(7)
    for number, code in enumerate(codes(), start=1):
        ends = now + rolled.randint(-HOUR // 10, 6 * HOUR)
        yield {"id": number, "code": code, "offer_ends_at": ends}


def _copied(count: int) -> Insert:
    """Doubles the articles up to ARTICLES; faster than sending all of them."""
    rows = select(article.c.id + count, article.c.code, article.c.offer_ends_at + 7)
    return article.insert().from_select(
        ["id", "code", "offer_ends_at"], rows.where(article.c.id <= ARTICLES - count)
    )


def _names(connection: Connection) -> set[str]:
    found: Inspector = inspect(connection)
    return {*found.get_table_names(), *found.get_view_names()}


def _ours(names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(("windlass_", "shop_"))]
