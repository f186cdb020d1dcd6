"""What it costs a user's table to be followed: 100,000 rows inserted and deleted, by one statement.

`plain` is the time without triggers, `followed` with them, in seconds.
"""

from __future__ import annotations

import json
import sys
import time

from bench.contract import end_in_order_when_told, url
from bench.raw.session import Session
from bench.scenario.rolling_app import PRODUCT, app, mirrored

ROWS = 100_000
QUICK = 5_000

FILL = "insert into product (code, name) select code, name from staging"
CLEAR = "delete from product"


def main() -> None:
    end_in_order_when_told()
    rows = QUICK if "--quick" in sys.argv else ROWS
    app.migrate()
    session = Session(url())
    prepare(session, rows)
    figures: dict[str, object] = {"rows": rows}
    for name in ("plain", "followed"):
        if name == "followed":
            mirrored.follow(PRODUCT)
        figures[f"insert_{name}"] = seconds(session, FILL)
        figures[f"delete_{name}"] = seconds(session, CLEAR)
    assert mirrored.freshness().total == 0
    print(json.dumps(figures))


def prepare(session: Session, rows: int) -> None:
    for table in ("product", "staging"):
        with session.transaction():
            session.execute(f"create table {table} (code varchar(40) primary key, name text)")
    for begin in range(0, rows, 5_000):
        numbers = range(begin, min(begin + 5_000, rows))
        values = ", ".join(f"('SKU-{number:08d}', 'a product')" for number in numbers)
        with session.transaction():
            session.execute(f"insert into staging values {values}")


def seconds(session: Session, statement: str) -> float:
    begin = time.perf_counter()
    with session.transaction():
        session.execute(statement)
    return round(time.perf_counter() - begin, 2)


if __name__ == "__main__":
    main()
