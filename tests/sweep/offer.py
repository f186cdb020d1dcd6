"""A sweep named `offer`, and a table of articles for it to walk over."""

from typing import Any

from sqlalchemy import create_engine, text

from windlass import App, Keys, Sweep
from windlass.database.database import normalise


def declare(app: App, seen: list[Any], source: Any = None, **options: Any) -> Sweep[[Any], None]:
    """The sweep `offer`, which notes what it is called with."""

    @app.sweep(Keys(1, 100) if source is None else source, **{"ranges": 4, **options})
    def offer(row: Any) -> None:
        seen.append(row)

    return offer


def failing(app: App, seen: list[int], bad: set[int], **options: Any) -> Sweep[[int], None]:
    """A sweep that fails for some keys, as long as they are in `bad`."""

    @app.sweep(Keys(1, 40), **{"ranges": 2, **options})
    def offer(number: int) -> None:
        seen.append(number)
        if number in bad:
            raise ValueError(f"no offer for {number}")

    return offer


class Articles:
    """A table of the user's own, in the database of the app."""

    def __init__(self, url: str, count: int = 0) -> None:
        self.engine = create_engine(normalise(url))
        self.execute("create table article (id bigint primary key, title varchar(50))")
        self.insert(*range(1, count + 1))

    def execute(self, statement: str, **values: Any) -> None:
        with self.engine.begin() as connection:
            connection.execute(text(statement), values)

    def insert(self, *numbers: int) -> None:
        if numbers:
            with self.engine.begin() as connection:
                connection.execute(
                    text("insert into article (id, title) values (:id, :title)"),
                    [{"id": number, "title": f"t{number}"} for number in numbers],
                )

    def close(self) -> None:
        self.execute("drop table article")
        self.engine.dispose()
