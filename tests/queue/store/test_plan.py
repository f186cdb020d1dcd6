"""Every statement of queues that runs per tick takes an index, among many messages.

The statements are caught on their way to a database with many rows, and explained there.
"""

from collections.abc import Callable

import pytest
from sqlalchemy import Connection, text

from tests.database.plan import SERIES, analyze, scans, statements
from windlass import App
from windlass.core.face import Tidying
from windlass.queue.store import inbox, outbox
from windlass.queue.store.outbox import OutboxPlace

MANY = 20_000
ALL = range(256)
SHARE = [range(10, 12), range(200, 203)]
TABLES = {"windlass_outbox", "windlass_inbox", "windlass_message"}

# Of two queues: one has many messages in all buckets, some failed; the other has three.
OUTBOX = """
insert into windlass_outbox (id, queue_id, bucket, status, message_id, created_at, coding,
                             content_type, body)
select 1000 + i, case when i <= {many} then 1 else 2 end, i % 256,
    case when i % 100 = 0 then 3 else 0 end, '7', 5, 'utf-8', 'application/json', '{{}}'
from {series} as series
"""
INBOX = """
insert into windlass_inbox (kind, message_hash, forget_at)
select 'on_event', i, i from {series} as series
"""
# Most failed long ago; some are tried again later, some now; a few of them in one lane.
MESSAGE = """
insert into windlass_message (id, kind, message_id, bucket, status, due_at, lane, tries,
                              received_at, coding, content_type, headers, body)
select i, 'on_event', '7', i % 256, case when i % 10 < 8 then 3 else 0 end,
    case when i % 10 < 8 then null when i % 1000 = 9 then 100 else 9000000000000000 end,
    case when i % 100 = 9 then 'lane' else null end, 1, 5, 'utf-8', 'application/json', '{{}}',
    '{{}}'
from {series} as series
"""

ACTS: dict[str, Callable[[Connection], object]] = {
    "look for queues": lambda connection: outbox.waiting(connection, buckets=SHARE),
    "look for queues in all buckets": lambda connection: outbox.waiting(connection, buckets=[ALL]),
    "read a page": lambda connection: outbox.read(
        connection, 1, buckets=SHARE, after=OutboxPlace(), limit=100
    ),
    "read the next page": lambda connection: outbox.read(
        connection, 1, buckets=[ALL], after=OutboxPlace(100, 1500), limit=100
    ),
    "delete": lambda connection: outbox.sent(connection, [1001, 1002, 1003]),
    "find the oldest": lambda connection: outbox.oldest(connection, 1),
    "recognise": lambda connection: inbox.known(connection, "on_event", ["a", "b", "c"]),
    "find what is due": lambda connection: inbox.due(
        connection, "on_event", now=1_000, buckets=SHARE, limit=100
    ),
    "claim": lambda connection: [
        inbox.claim(connection, row, until=5_000)
        for row in inbox.due(connection, "on_event", now=1_000, buckets=[ALL], limit=5)
    ],
    "find lanes that wait": lambda connection: inbox.waiting_lanes(
        connection, "on_event", ["lane", "other"]
    ),
    "forget": lambda connection: inbox.prune(
        Tidying(connection, dialect=None, faces=None, now=500, limit=100)
    ),
}


@pytest.fixture
def app(app, database_engine):
    app.prepare()
    with app.database.engine.begin() as connection:
        for table, source, count in (
            ("outbox", OUTBOX, MANY + 3),
            ("inbox", INBOX, MANY),
            ("message", MESSAGE, MANY),
        ):
            series = SERIES[database_engine].format(count=count)
            connection.execute(text(source.format(series=series, many=MANY)))
            connection.execute(text(f"{analyze(database_engine)} windlass_{table}"))
        for number in (1, 2):
            connection.execute(
                text(
                    "insert into windlass_queue (id, name, address, created_at) "
                    f"values ({number}, 'q{number}', 'redis://broker', 5)"
                )
            )
    return app


def test_no_statement_of_queues_that_runs_per_tick_reads_a_whole_table(app, database_engine):
    problems = {}
    for name, act in ACTS.items():
        with statements(app, "queue|outbox|inbox|message") as caught:
            app.database.write(act)
        assert caught, name
        problems[name] = [
            problem
            for statement in caught
            for problem in scans(database_engine, app, statement, TABLES)
        ]

    assert {name: found for name, found in problems.items() if found} == {}


def test_only_queues_with_messages_in_these_buckets_are_found(app: App):
    def found(*buckets: range) -> set[int]:
        return app.database.read(lambda connection: outbox.waiting(connection, buckets=buckets))

    # The last three messages are in buckets 33 to 35 of the second queue.
    assert found(ALL) == {1, 2}
    assert found(range(30, 33), range(36, 40)) == {1}
    assert found(range(36, 40), range(32, 34)) == {1, 2}
    assert found() == set()


@pytest.mark.mostly("sqlite")
def test_a_statement_without_an_index_is_found(app, database_engine):
    with statements(app, "outbox") as caught:
        app.database.read(
            lambda connection: connection.execute(
                outbox.select(outbox.outbox.c.id).where(outbox.outbox.c.message_id == "7")
            ).all()
        )

    assert scans(database_engine, app, caught[0], TABLES)
