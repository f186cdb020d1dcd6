"""The shop: articles with offers that end without notice, and the function that checks one."""

from __future__ import annotations

import os
import sqlite3

from windlass import App, Table

ARTICLES = "articles.db"
COUNT = 2_000

app = App(os.environ.get("WINDLASS_DATABASE_URL", "sqlite:///sweep.db"))
articles = Table(f"sqlite:///{ARTICLES}", "article", key="id", columns=["id", "offer"])
# What the other side would say; the example changes its mind.
broken = {17, 1_500}


# Nothing is enqueued: a worker finds the sweep and runs it. Ten ranges, each with a breakpoint;
# the next round begins four hours after the last one ended.
@app.sweep(articles, ranges=10, redo="4h", concurrency=20, breaker="20 in a row, 5m", timeout="5s")
async def offer(article: dict) -> None:
    """Check one article. If it fails, it becomes a failed item, and the sweep continues."""
    if article["id"] in broken:
        raise ConnectionError(f"nobody answers for {article['offer']}")


def fill() -> None:
    """Make the table, which belongs to another program."""
    with sqlite3.connect(ARTICLES) as table:
        table.execute("create table if not exists article (id integer primary key, offer text)")
        table.executemany(
            "insert or ignore into article values (?, ?)",
            ((number, f"offer-{number}") for number in range(1, COUNT + 1)),
        )
