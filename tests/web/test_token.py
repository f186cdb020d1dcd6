"""Access tokens at the console's door: bearer tokens, sessions, and how they end."""

import asyncio
import json
import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import closing

import pytest

from tests.fixture.console import SECRET, Console
from tests.wait import eventually
from windlass import App, web
from windlass.clock import SECOND
from windlass.operate.token.operate import FleetTokens
from windlass.view.role import Role
from windlass.web.credential import WRONG_AT_ONCE, Credentials
from windlass.web.link import Link
from windlass.web.site import make

PAUSE = "switches/send_mail/pause"


@pytest.fixture
def tokens(sqlite_web_shop):
    return FleetTokens(sqlite_web_shop.app.fleet)


@pytest.fixture
def locked(browse):
    return browse(secret=SECRET)


def bearer(token: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **more}


def test_a_token_is_a_bearer_token_and_the_audit_log_says_which(locked, tokens):
    token = tokens.create("deploy", Role.OPERATOR, who="Ada").token

    for header in (bearer(token), bearer(token, **{"X-Windlass-User": "Grace"})):
        assert locked.client.post(f"/api/{PAUSE}", json={}, headers=header).status_code == 200

    deeds = locked.client.get("/api/audit", headers=bearer(token)).json()["items"]
    assert [(deed["who"], deed["via"]) for deed in deeds] == [
        ("Grace (token deploy)", "api token"),
        ("token deploy", "api token"),
    ]


def test_who_has_only_the_secret_cannot_pass_for_a_token_in_the_audit_log(locked):
    header = bearer(SECRET, **{"X-Windlass-User": "token deploy"})
    locked.client.post(f"/api/{PAUSE}", json={}, headers=header)

    (deed,) = locked.client.get("/api/audit", headers=header).json()["items"]
    assert deed["via"] == "api"


def test_a_token_logs_in_and_acts_with_the_token_of_the_session(locked, tokens):
    token = tokens.create("ada", Role.OPERATOR, who="Ada").token

    session = locked.log_in(token, name="Ada").json()
    locked.do(PAUSE)

    assert (session["role"], session["by"]) == ("operator", "token")
    assert session["name"] == "Ada (token ada)"
    deed = locked.get("audit")["items"][0]
    assert (deed["who"], deed["via"]) == ("Ada (token ada)", "console token")
    locked.headers.clear()
    assert locked.post(PAUSE).json()["title"] == "NoToken"


def test_a_viewers_token_is_read_only_and_a_producers_opens_no_console(locked, tokens):
    viewer = tokens.create("eve", Role.VIEWER, who="Ada").token
    producer = tokens.create("importer", Role.PRODUCER, who="Ada").token

    refused = locked.log_in(producer)
    session = locked.log_in(viewer).json()

    assert (refused.status_code, refused.json()["title"]) == (403, "NotAllowed")
    assert "set-cookie" not in refused.headers
    assert (session["role"], session["read_only"]) == ("viewer", True)
    assert locked.post(PAUSE).json()["title"] == "ReadOnly"


def test_a_console_with_a_link_takes_tokens_too(sqlite_web_shop, tokens):
    token = tokens.create("ada", Role.ADMIN, who="Ada").token
    with Link.made() as link:
        console = Console(make(sqlite_web_shop.app, Credentials(link=link)))

        assert console.log_in(token).status_code == 200
        assert console.client.get("/api/overview").status_code == 200


def test_when_a_token_is_revoked_elsewhere_its_sessions_end_within_a_second(browse, tokens):
    token = tokens.create("ada", Role.ADMIN, who="Ada").token
    console, other = browse(secret=SECRET), browse(secret=SECRET)
    console.log_in(token)
    assert console.client.get("/api/overview").status_code == 200
    assert other.client.get("/api/overview", headers=bearer(token)).status_code == 200

    tokens.revoke("ada", who="Grace")

    eventually(lambda: console.client.get("/api/overview").status_code == 401)
    answer = eventually(
        lambda: next(
            (
                found
                for found in [other.client.get("/api/overview", headers=bearer(token))]
                if found.status_code == 401
            ),
            None,
        )
    )
    assert answer.json()["detail"] == "the token ada was revoked"
    assert console.client.get("/api/session").json()["is_logged_in"] is False
    assert console.log_in(token).json()["detail"] == "the token ada was revoked"


def test_an_expired_token_opens_nothing_and_ends_its_sessions(app, clock):
    app.prepare()
    tokens = FleetTokens(app.fleet)
    token = tokens.create("ada", Role.ADMIN, expires="1h", who="Ada").token
    console = Console(web.create(app, secret=SECRET))
    console.log_in(token)
    assert console.client.get("/api/overview").status_code == 200

    clock.advance(3_700 * SECOND)

    assert console.client.get("/api/overview").status_code == 401
    answer = Console(web.create(app, secret=SECRET)).client.get(
        "/api/overview", headers=bearer(token)
    )
    assert answer.json()["detail"] == "the token ada has expired"


def test_sessions_of_a_token_are_shared_by_processes_with_the_same_secret_only(browse, tokens):
    token = tokens.create("ada", Role.ADMIN, who="Ada").token
    first = browse(secret=SECRET)
    first.log_in(token)

    same, another = browse(secret=SECRET), browse(secret="another secret of 16")
    for console in (same, another):
        console.client.cookies = first.client.cookies

    assert same.client.get("/api/overview").status_code == 200
    assert another.client.get("/api/overview").status_code == 401


def test_a_new_token_of_the_same_name_does_not_revive_old_sessions(browse, tokens):
    console = browse(secret=SECRET)
    console.log_in(tokens.create("ada", Role.ADMIN, who="Ada").token)

    tokens.revoke("ada", who="Ada")
    tokens.create("ada", Role.ADMIN, who="Ada")

    eventually(lambda: console.client.get("/api/overview").status_code == 401)


def test_the_cookie_has_nothing_of_the_token_or_its_hash(locked, tokens):
    token = tokens.create("ada", Role.ADMIN, who="Ada").token
    row = tokens.recognise(token).row

    locked.log_in(token)

    cookie = locked.client.cookies["windlass_session"]
    claim = urlsafe_b64decode(cookie.partition(".")[0] + "==").decode()
    for hidden in (token, token.split("_", 2)[2], row.hash, row.salt):
        assert hidden not in cookie + claim


def test_a_cookie_that_claims_to_be_of_a_token_is_not_believed(locked, tokens):
    viewer = tokens.create("eve", Role.VIEWER, who="Ada").token
    admin = tokens.create("ada", Role.ADMIN, who="Ada")
    locked.log_in(viewer)
    body, _, signature = locked.client.cookies["windlass_session"].partition(".")
    claim = json.loads(urlsafe_b64decode(f"{body}=="))

    for forged in (
        claim | {"role": "admin"},
        claim | {"role": "admin", "token": admin.prefix.removeprefix("windlass_")},
        claim | {"role": "admin", "token": None, "by": "proxy"},
        claim | {"token": "0" * 12},
    ):
        text = urlsafe_b64encode(json.dumps(forged).encode()).decode().rstrip("=")
        locked.client.cookies.clear()
        cookie = {"cookie": f"windlass_session={text}.{signature}"}
        assert locked.client.get("/api/overview", headers=cookie).status_code == 401


def test_wrong_tokens_are_counted_and_right_ones_never_refused(locked, tokens):
    token = tokens.create("ada", Role.ADMIN, who="Ada").token
    guess = f"{token[:-3]}xyz"

    codes = [
        locked.client.get("/api/overview", headers=bearer(guess)).status_code
        for _ in range(WRONG_AT_ONCE + 1)
    ]

    assert codes == [401] * WRONG_AT_ONCE + [429]
    assert locked.client.get("/api/overview", headers=bearer(token)).status_code == 200
    assert locked.log_in(token).status_code == 200


def test_without_a_database_a_token_is_refused_and_the_secret_is_not():
    with closing(App("postgresql://nobody@127.0.0.1:1/none", connect_timeout="1s")) as app:
        console = Console(web.create(app, secret=SECRET))
        token = f"windlass_{'0' * 12}_{'x' * 43}"

        answer = console.client.get("/api/session", headers=bearer(token))

        assert answer.status_code == 503
        assert "127.0.0.1" not in answer.text
        assert console.client.get("/api/session", headers=bearer(SECRET)).status_code == 200


# The API of tokens


def test_an_admin_makes_lists_and_revokes_tokens(console):
    made = console.do("tokens", name="deploy", role="producer", expires="90d")
    (listed,) = console.get("tokens")["items"]
    revoked = console.do("tokens/deploy/revoke")

    assert made["token"].startswith(made["prefix"])
    assert (listed["state"], listed["role"]) == ("active", "producer")
    assert made["token"] not in json.dumps(console.get("tokens"))
    assert revoked["state"] == "revoked"
    deeds = console.get("audit")["items"]
    assert [deed["action"] for deed in deeds] == ["token.revoke", "token.create"]
    assert made["token"] not in json.dumps(deeds)
    assert console.post("tokens/deploy/revoke").status_code == 409
    assert console.post("tokens/none/revoke").status_code == 404


def test_a_token_that_cannot_be_is_refused(console):
    console.do("tokens", name="deploy", role="viewer")

    assert console.post("tokens", name="deploy", role="viewer").status_code == 409
    for body in (
        {"name": "a b", "role": "viewer"},
        {"name": "-a", "role": "viewer"},
        {"name": "a", "role": "king"},
        {"name": "a", "role": "viewer", "expires": "soon"},
        {"name": "a" * 65, "role": "viewer"},
    ):
        assert console.post("tokens", **body).status_code == 422, body
    assert len(console.get("tokens")["items"]) == 1


def test_the_token_is_in_no_log_and_only_in_the_answer_that_made_it(locked, caplog):
    caplog.set_level(logging.DEBUG)
    locked.log_in(SECRET)
    token = locked.do("tokens", name="ada", role="admin")["token"]
    locked.client.cookies.clear()

    answers = [
        locked.log_in(token),
        locked.client.get("/api/overview", headers=bearer(token)),
        locked.client.get("/api/overview", headers=bearer(f"{token}x")),
        locked.client.post("/api/session", json={"secret": [token]}),
        locked.client.get("/api/audit"),
    ]

    said = "".join(f"{answer.text}{answer.headers}" for answer in answers)
    assert token not in said
    assert token not in caplog.text


async def test_a_stream_of_events_ends_with_the_token(sqlite_web_shop, tokens):
    made = tokens.create("ada", Role.VIEWER, who="Ada")
    sent: list[bytes] = []
    scope = {
        "type": "http",
        "method": "GET",
        "scheme": "http",
        "path": "/api/events",
        "raw_path": b"/api/events",
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"authorization", f"Bearer {made.token}".encode())],
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
    }
    asked = 0

    async def receive() -> dict[str, object]:
        nonlocal asked
        asked += 1
        if asked > 1:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "http.response.body":
            body = message.get("body", b"")
            assert isinstance(body, bytes)
            if not sent:
                tokens.revoke("ada", who="Grace")
            sent.append(body)

    # It ends by itself; the client never goes away.
    await web.create(sqlite_web_shop.app, secret=SECRET)(scope, receive, send)

    assert sent[0] == b"retry: 2000\n\n"
    assert sent[-1] == b""
