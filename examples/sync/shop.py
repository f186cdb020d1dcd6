"""Sales go to any shard that is up; workers bring them into the one book, a list at a time."""

import os
from dataclasses import asdict, dataclass

from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, insert
from sqlalchemy.exc import OperationalError

from windlass import App, Overloaded, make_sink, sink_many

SHARDS = os.environ.get("SYNC_SHARDS", "sqlite:///sync_a.db sqlite:///sync_b.db").split()
BOOK = os.environ.get("SYNC_BOOK", "sqlite:///sync_book.db")

app = App(*SHARDS, connect_timeout="2s")
book = create_engine(BOOK)
sale = Table(
    "sale",
    MetaData(),
    Column("id", String(60), nullable=False, index=True),
    Column("code", String(60), nullable=False),
    Column("quantity", Integer, nullable=False),
)


@dataclass
class Sale:
    """A sale, under the id that its seller gave it: asked again, he gives the same."""

    id: str
    code: str
    quantity: int


@app.task(many=1_000, wait="20ms", concurrency=1, retries=100, backoff="1s")
def write(sales: list[Sale]) -> None:
    """Bring sales into the book, each once: their ids are committed with them, or not at all."""
    try:
        with book.begin() as target:
            new = set(sink_many(target, sorted(each.id for each in sales), of="sale"))
            rows = {each.id: asdict(each) for each in sales if each.id in new}
            if rows:
                target.execute(insert(sale), list(rows.values()))
    except OperationalError as problem:
        # The book is away, for all of them: no try is counted, and no half is tried alone.
        raise Overloaded(retry_after="1s") from problem


def prepare() -> None:
    """Make the tables of the shards and of the book."""
    app.migrate()
    sale.metadata.create_all(book)
    with book.begin() as target:
        make_sink(target)
