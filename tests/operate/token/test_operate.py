"""Tokens in the database: made once, recognised by their hash, revoked, and used now and then."""

import re
from contextlib import closing

import pytest
from sqlalchemy import event, select, text

from tests.wait import eventually
from windlass import App
from windlass.clock import SECOND, ManualClock
from windlass.database.schema import token as table
from windlass.errors import BadInput, NotPossible, Unknown
from windlass.operate.token import store
from windlass.operate.token.model import TOKEN, make
from windlass.operate.token.operate import FRESH_SECONDS, USE_AGAIN_AFTER, FleetTokens
from windlass.view.role import Role


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def app(database_url, clock):
    with closing(App(database_url, clock=clock)) as made:
        yield made


@pytest.fixture
def tokens(app):
    return FleetTokens(app.fleet)


def rows(app):
    return app.database.read(lambda connection: connection.execute(select(table)).mappings().all())


def test_a_token_is_recognised_and_only_its_hash_is_stored(app, tokens):
    made = tokens.create("deploy", Role.PRODUCER, who="Ada")

    shown = tokens.recognise(made.token)
    assert TOKEN.fullmatch(made.token)
    assert (shown.row.name, shown.row.role, shown.state) == ("deploy", Role.PRODUCER, "active")
    (row,) = rows(app)
    assert made.token not in str(row)
    assert made.token.rpartition("_")[2] not in str(row)
    assert made.token.startswith(made.prefix)
    assert (row["created_by"], row["last_used_at"], row["revoked_at"]) == ("Ada", None, None)


def test_what_is_almost_the_token_is_not_recognised(tokens):
    token = tokens.create("deploy", Role.ADMIN, who="Ada").token
    last = "a" if token[-1] != "a" else "b"
    near = [token[:-1] + last, token[:-1], token + "a", token.upper(), token[9:], "", "windlass_"]

    assert [given for given in near if tokens.recognise(given) is not None] == []


def test_the_text_of_a_token_is_in_no_repr(tokens):
    made = tokens.create("deploy", Role.ADMIN, who="Ada")
    shown = tokens.recognise(made.token)

    assert made.token not in repr(made)
    assert shown.row.hash not in repr(shown)
    assert shown.row.salt not in repr(shown)


def test_a_token_expires_by_the_clock_of_the_database(tokens, clock):
    made = tokens.create("deploy", Role.VIEWER, expires="90d", who="Ada")
    clock.advance(90 * 86_400 * SECOND - 10 * SECOND)
    assert tokens.recognise(made.token).state == "active"

    clock.advance(20 * SECOND)

    assert tokens.recognise(made.token).state == "expired"
    assert tokens.active(made.prefix.removeprefix("windlass_")) is None
    assert [view.state for view in tokens.listing()] == ["expired"]


def test_a_token_that_another_process_revokes_stops_within_a_second(app, tokens):
    made = tokens.create("deploy", Role.ADMIN, who="Ada")
    assert tokens.recognise(made.token).state == "active"

    FleetTokens(app.fleet).revoke("deploy", who="Grace")

    eventually(lambda: tokens.recognise(made.token).state == "revoked", FRESH_SECONDS + 10)
    (view,) = tokens.listing()
    assert (view.state, view.revoked_by) == ("revoked", "Grace")
    with pytest.raises(NotPossible, match="was revoked before"):
        tokens.revoke("deploy", who="Grace")
    with pytest.raises(Unknown, match="no token is named 'other'"):
        tokens.revoke("other", who="Grace")


def test_a_name_is_free_again_when_its_token_is_over(tokens):
    old = tokens.create("deploy", Role.ADMIN, who="Ada")
    with pytest.raises(NotPossible, match="there is a token 'deploy' already"):
        tokens.create("deploy", Role.ADMIN, who="Ada")
    tokens.revoke("deploy", who="Ada")

    new = tokens.create("deploy", Role.VIEWER, who="Ada")

    assert tokens.recognise(old.token) is None
    assert tokens.recognise(new.token).row.role is Role.VIEWER
    assert len(tokens.listing()) == 1


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "-a", "ü", "a" * 65, "a\n", "a/b", "<b>", "a\x00"]
)
def test_names_are_bounded_and_plain(tokens, name):
    with pytest.raises(BadInput, match="cannot name a token"):
        tokens.create(name, Role.ADMIN, who="Ada")

    assert tokens.listing() == []


def test_there_are_not_more_than_the_most(app, tokens, clock, monkeypatch):
    monkeypatch.setattr(store, "MOST", 3)
    for name in ("a", "b", "c"):
        tokens.create(name, Role.VIEWER, who="Ada")
        clock.advance(SECOND)
    with pytest.raises(NotPossible, match="there are 3 tokens, which is the most"):
        tokens.create("d", Role.VIEWER, who="Ada")
    tokens.revoke("b", who="Ada")

    tokens.create("d", Role.VIEWER, who="Ada")

    assert [row["name"] for row in rows(app)] == ["a", "c", "d"]


def test_a_use_is_written_at_most_once_a_minute_and_by_nobody_who_waits(app, tokens, clock):
    made = tokens.create("deploy", Role.VIEWER, who="Ada")
    row = tokens.recognise(made.token).row
    written = []
    event.listen(
        app.database.engine,
        "before_cursor_execute",
        lambda *call: written.append(call[2]) if call[2].lower().startswith("update") else None,
    )

    tokens.use(row)
    first = eventually(lambda: rows(app)[0]["last_used_at"])
    for _ in range(50):
        tokens.use(row)
    FleetTokens(app.fleet).use(row)
    clock.advance(USE_AGAIN_AFTER)
    tokens.use(row)

    eventually(lambda: rows(app)[0]["last_used_at"] > first)
    # The other process knew of no use, asked, and changed nothing.
    eventually(lambda: len(written) == 3)
    assert rows(app)[0]["last_used_at"] - first >= USE_AGAIN_AFTER


def test_most_requests_ask_the_database_nothing(app, tokens):
    made = tokens.create("deploy", Role.VIEWER, who="Ada")
    tokens.recognise(made.token)
    asked = []
    event.listen(app.database.engine, "before_cursor_execute", lambda *call: asked.append(call[2]))

    for _ in range(20):
        tokens.recognise(made.token)

    # A slow machine may need more than a second for them.
    assert len(asked) <= 5


def test_the_salt_differs_so_the_hash_says_nothing_about_the_token():
    token, row = make("a", Role.VIEWER, who="Ada", now=0, length=None)
    _, other = make("a", Role.VIEWER, who="Ada", now=0, length=None)

    assert row.is_of(token)
    assert (row.salt != other.salt, row.hash != other.hash) == (True, True)
    assert re.fullmatch("[0-9a-f]{64}", row.hash)


# Several shards


@pytest.fixture
def two(database_url, second_database_url, clock):
    with closing(App(database_url, second_database_url, clock=clock)) as made:
        made.prepare()
        yield made


def shard_rows(app, index):
    database = app.fleet.shards[index].database
    return database.read(store.listing)


def test_every_shard_has_every_token(two):
    tokens = FleetTokens(two.fleet)
    made = tokens.create("deploy", Role.VIEWER, who="Ada")

    assert [len(shard_rows(two, index)) for index in (0, 1)] == [1, 1]
    tokens.revoke("deploy", who="Ada")
    assert [shard_rows(two, index)[0].revoked_by for index in (0, 1)] == ["Ada", "Ada"]
    assert tokens.recognise(made.token).state == "revoked"


def test_a_shard_that_lacks_a_token_or_its_end_is_told(two):
    tokens = FleetTokens(two.fleet)
    kept = tokens.create("kept", Role.VIEWER, who="Ada")
    tokens.create("over", Role.VIEWER, who="Ada")
    tokens.revoke("over", who="Ada")
    # The second shard was restored from a backup.
    second = two.fleet.shards[1].database
    second.write(
        lambda connection: connection.execute(text("delete from windlass_token where name='kept'"))
    )
    second.write(
        lambda connection: connection.execute(
            text("update windlass_token set revoked_at = null, revoked_by = null")
        )
    )

    found = {view.name: view.state for view in FleetTokens(two.fleet).listing()}

    assert found == {"kept": "active", "over": "revoked"}
    assert [(row.name, row.revoked_by) for row in shard_rows(two, 1)] == [
        ("kept", None),
        ("over", "Ada"),
    ]
    assert tokens.recognise(kept.token).state == "active"
