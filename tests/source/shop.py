"""A shop: a database of the user's with a table of products, and connections of the user's own."""

from sqlalchemy import create_engine, select, text, update

from windlass.database.database import Database, normalise
from windlass.database.schema import tally, task
from windlass.rolling.operate import source as follow
from windlass.source.store.table import Table
from windlass.value.period import GOES

MANY = {
    "sqlite": "with recursive n (i) as (select 1 union all select i + 1 from n where i < {count}) "
    "insert into product (code) select printf('%08d', i) from n",
    "postgresql": "insert into product (code) "
    "select lpad(i::text, 8, '0') from generate_series(1, {count}) as i",
    "mysql": "insert into product (code) select lpad(i, 8, '0') from json_table("
    "concat('[0', repeat(',0', {count} - 1), ']'), '$[*]' columns (i for ordinality)) as n",
}
IGNORING_CASE = {
    "sqlite": "varchar(50) collate nocase",
    "postgresql": 'varchar(50) collate "ignoring"',
    "mysql": "varchar(50) character set utf8mb4 collate utf8mb4_general_ci",
}
EXACT = {
    "sqlite": "varchar(300)",
    "postgresql": "varchar(300)",
    "mysql": "varchar(300) character set utf8mb4 collate utf8mb4_0900_bin",
    "mariadb": "varchar(300) character set utf8mb4 collate utf8mb4_nopad_bin",
}


def server_of(engine):
    """The database by its name in `--database`; only a connection tells MySQL from MariaDB."""
    engine.connect().close()
    return "mariadb" if getattr(engine.dialect, "is_mariadb", False) else engine.dialect.name


class Shop:
    def __init__(self, url):
        self.url = url
        self.engine = create_engine(normalise(url))
        self.backend = self.engine.dialect.name.replace("mariadb", "mysql")
        self.exact = EXACT[server_of(self.engine)]
        self.source = Table(url, "product", key="code")

    def execute(self, *statements):
        with self.engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    def make(self, column=None, codes=()):
        """The table, with that type of key; one that compares byte by byte if none is given."""
        column = column or f"{self.exact} primary key"
        self.execute(f"create table product (code {column}, note varchar(50))")
        if codes:
            self.insert(*codes)

    def make_ignoring_case(self, codes=()):
        if self.backend == "postgresql":
            self.execute(
                "create collation ignoring "
                "(provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
            )
        self.make(f"{IGNORING_CASE[self.backend]} primary key", codes)

    def make_many(self, count):
        self.make()
        self.insert_many(count)

    def insert(self, *codes):
        with self.engine.begin() as connection:
            connection.execute(
                text("insert into product (code) values (:code)"), [{"code": c} for c in codes]
            )

    def insert_many(self, count):
        """Insert "00000001" and so on by one statement."""
        self.execute(MANY[self.backend].format(count=count))

    def rename(self, old, new):
        self._change("update product set code = :new where code = :code", code=old, new=new)

    def delete(self, code):
        self._change("delete from product where code = :code", code=code)

    def close(self):
        self.source.close()
        self.engine.dispose()

    def _change(self, statement, **values):
        with self.engine.begin() as connection:
            connection.execute(text(statement), values)


class FollowedShop(Shop):
    """A shop in the database of an app, whose kinds follow the products."""

    def __init__(self, url):
        super().__init__(url)
        self.database = Database(url)

    def follow(self, kind="stock", source=None):
        follow.install(self.database, source or self.source, kind=kind, priority=3)

    def unfollow(self, kind="stock", source=None):
        return follow.uninstall(self.database, source or self.source, kind=kind)

    def is_followed(self, kind="stock", source=None):
        return follow.is_installed(self.database, source or self.source, kind=kind)

    def rows(self, kind="stock"):
        query = select(task).where(task.c.kind == kind)
        rows = self.database.read(lambda connection: connection.execute(query).mappings().all())
        return {row["task_key"]: row for row in rows}

    def items(self, kind="stock"):
        """The codes of those that are not about to go; the tally must agree."""
        codes = {code for code, row in self.rows(kind).items() if row["prune_at"] != GOES}
        assert self.tally(kind) == len(codes)
        return codes

    def tally(self, kind="stock"):
        query = select(tally.c.delta).where(tally.c.kind == kind)
        return sum(self.database.read(lambda connection: connection.scalars(query).all()))

    def set(self, code, **values):
        """Change an item behind everybody's back, as a worker would."""
        changed = update(task).where(task.c.task_key == code).values(**values)
        self.database.write(lambda connection: connection.execute(changed))

    def close(self):
        super().close()
        self.database.close()
