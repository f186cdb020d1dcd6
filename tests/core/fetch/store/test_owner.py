"""The owner's read: rows come back as they were written, whatever is in their texts."""

from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import insert

from windlass import App
from windlass.clock import SECOND
from windlass.core.fetch.claim import Rows
from windlass.database.dialect.base import Most, Stamp, Tier
from windlass.database.schema import task
from windlass.value.bucket import BUCKETS

NOW = 1_800_000_000 * SECOND
MOST = Most(1_000, NOW, range(3), range(BUCKETS))
# Every character but those that no database stores.
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=50)


@pytest.fixture
def database(database_url):
    with closing(App(database_url)) as app:
        app.prepare()
        yield app.database


def read(database, kind):
    tier = Tier(kind, 0, 0)
    return Rows(database).read(tier, Stamp(None, 7, NOW, NOW), MOST)


def write(database, kind, rows):
    values = [
        {
            "id": number,
            "kind": kind,
            "bucket": number % BUCKETS,
            "status": 0,
            "priority": 0,
            "due_at": NOW - 1_000 + number,
            "created_at": NOW,
            "lost": 0,
            "attempt": 0,
            "task_key": None,
            "started_at": None,
            "payload": "{}",
            **row,
        }
        for number, row in enumerate(rows, start=1)
    ]
    database.write(lambda connection: connection.execute(task.delete()))
    database.write(lambda connection: connection.execute(insert(task), values))
    return values


def check(database, kind, rows):
    written = write(database, kind, rows)
    found = read(database, kind)
    assert [
        (row.id, row.kind, row.task_key, row.payload, row.bucket, row.due_at) for row in found
    ] == [
        (row["id"], kind, row["task_key"], row["payload"], row["bucket"], row["due_at"])
        for row in written
    ]
    return found


def test_every_character_comes_back(database):
    blocks = [
        "".join(chr(code) for code in range(start, start + 64) if not 0xD800 <= code < 0xE000)
        for start in (*range(0, 0x3000, 64), 0xD7C0, 0xE000, 0xFFC0, 0x1F600, 0x10FFC0)
    ]
    texts = [text.replace("\x00", "") for text in blocks]
    payloads = [as_json(text) for text in texts]

    check(database, "kind", [{"payload": payload} for payload in payloads])
    check(database, "kind", [{"task_key": text} for text in texts])


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=TEXTS, texts=st.lists(TEXTS, min_size=1, max_size=8, unique=True))
def test_any_text_comes_back(database, kind, texts):
    check(database, kind, [{"task_key": text, "payload": as_json(text)} for text in texts])


def test_large_numbers_come_back_whole(database):
    rows = [{"attempt": 2**31 - 2, "lost": 2, "started_at": NOW + 5, "bucket": 255}]

    (found,) = check(database, "kind", rows)

    assert (found.attempt, found.lost, found.started_at) == (2**31 - 1, 2, NOW + 6)


def test_large_payloads_come_back_whole(database):
    payloads = [as_json("é" * 400_000 + str(number)) for number in range(3)]

    check(database, "kind", [{"payload": payload} for payload in payloads])


def as_json(text):
    """The text in JSON, once as itself and once escaped."""
    escaped = "".join(f"\\u{ord(each):04x}" for each in text if ord(each) <= 0xFFFF)
    plain = text.translate(dict.fromkeys(range(32))).replace("\\", "").replace('"', "")
    return f'{{"plain":"{plain}","escaped":"{escaped}"}}'
