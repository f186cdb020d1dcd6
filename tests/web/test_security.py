"""Each guard of the console, and that it holds."""

import logging
from contextlib import closing
from urllib.parse import quote

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.fixture.console import SECRET, VIEWER_SECRET, Console
from windlass import App, web
from windlass.errors import BadInput
from windlass.web.access import AccessGate
from windlass.web.serve import check_host
from windlass.web.session.model import (
    WRONG_A_MINUTE,
    WRONG_A_MINUTE_BY_ALL,
    Guesses,
    Role,
    Sessions,
)

PAUSE = "switches/send_mail/pause"


# Without a secret: this machine, and by its own name


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "localhost:8484"])
def test_without_a_secret_this_machine_gets_in(browse, host):
    assert browse(host=host).client.get("/api/overview").status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io"])
def test_a_name_that_was_made_to_point_here_does_not_get_in(browse, host):
    answer = browse(host=host).client.get("/api/overview")

    assert (answer.status_code, answer.json()["title"]) == (403, "NotLocal")


def test_without_a_secret_another_machine_does_not_get_in(browse):
    console = browse(address="192.0.2.7")

    assert console.client.get("/api/overview").status_code == 403
    assert console.client.get("/").status_code == 403


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded"])
def test_without_a_secret_what_comes_through_a_proxy_does_not_get_in(browse, header):
    answer = browse().client.get("/api/overview", headers={header: "127.0.0.1"})

    assert answer.status_code == 403


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::", "example.com"])
def test_other_addresses_are_refused_without_a_secret(host):
    with pytest.raises(BadInput, match="WINDLASS_CONSOLE_SECRET"):
        check_host(host, has_secret=False)

    check_host(host, has_secret=True)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "::1", "[::1]"])
def test_addresses_of_this_machine_need_no_secret(host):
    check_host(host, has_secret=False)


# With a secret: log in


def test_with_a_secret_nothing_is_told_before_one_has_logged_in(browse):
    console = browse(secret=SECRET, host="ops.example", address="192.0.2.7")

    told = {
        route: console.client.get(route).status_code
        for route in ("/api/overview", "/api/tasks", "/api/events", "/api/about", "/api/audit")
    }
    session = console.client.get("/api/session").json()

    assert set(told.values()) == {401}
    assert (session["is_logged_in"], session["needs_secret"]) == (False, True)
    assert session["token"] is None
    assert console.client.get("/api/health").status_code == 200
    assert console.client.get("/api/openapi.json").status_code == 200


def test_every_route_but_a_few_needs_to_know_who_asks(browse):
    console = browse(secret=SECRET)
    document = console.client.get("/api/openapi.json").json()

    answers = {
        (method, path): console.client.request(method, path.replace("{", "").replace("}", ""))
        for path, methods in document["paths"].items()
        for method in methods
    }

    open_ = {place for place, answer in answers.items() if answer.status_code != 401}
    assert open_ == {
        ("get", "/api/session"),
        ("post", "/api/session"),
        ("delete", "/api/session"),
        ("get", "/api/health"),
    }


def test_the_secret_opens_a_session_that_ends_when_one_logs_out(browse):
    console = browse(secret=SECRET)
    console.log_in(SECRET, name="Ada")
    console.do(PAUSE, reason="sale")
    (deed,) = console.get("audit")["items"]
    cookie = console.client.cookies["windlass_session"]

    console.client.delete("/api/session")

    assert deed["who"] == "Ada"
    assert console.client.get("/api/overview").status_code == 401
    console.client.cookies.set("windlass_session", cookie)
    assert console.client.get("/api/overview").status_code == 401


def test_a_wrong_secret_opens_nothing(browse):
    console = browse(secret=SECRET)

    answer = console.log_in("wrong horse")

    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert console.client.get("/api/overview").status_code == 401


def test_the_cookie_is_out_of_reach(browse):
    cookie = browse(secret=SECRET).log_in(SECRET).headers["set-cookie"]

    parts = {part.strip().lower() for part in cookie.split(";")}
    assert {"httponly", "samesite=strict", "path=/"} <= parts
    assert "secure" not in parts


def test_over_https_the_cookie_stays_there(browse):
    console = browse(secret=SECRET)
    console.client.base_url = "https://localhost"

    assert "; secure" in console.log_in(SECRET).headers["set-cookie"].lower()


def test_a_cookie_that_was_changed_is_none(browse):
    console = browse(secret=SECRET)
    console.log_in(SECRET)
    cookie = console.client.cookies["windlass_session"]
    body, _, signature = cookie.partition(".")
    other_end = "1" if signature.endswith("0") else "0"

    for changed in (
        f"{body}x.{signature}",
        f"{body}.{signature[:-1]}{other_end}",
        body,
        ".",
        "é.x",
        "x" * 9_000,
    ):
        console.client.cookies.clear()
        answer = console.client.get(
            "/api/overview", headers={"cookie": f"windlass_session={changed}".encode()}
        )
        assert answer.status_code == 401, changed


def test_a_session_is_good_for_one_secret_only_and_not_forever(monkeypatch):
    _, cookie = Sessions(SECRET, None).begin("Ada", Role.OPERATOR)

    assert Sessions(SECRET, None).read(cookie) is not None
    assert Sessions("another secret", None).read(cookie) is None
    monkeypatch.setattr("time.time", lambda: 4e9)
    assert Sessions(SECRET, None).read(cookie) is None


# Guessing


def test_who_guesses_too_often_must_wait_even_with_the_right_secret(browse):
    console = browse(secret=SECRET)
    answers = [console.log_in("wrong").status_code for _ in range(WRONG_A_MINUTE + 1)]

    right = console.log_in(SECRET)

    assert answers == [401] * WRONG_A_MINUTE + [429]
    assert right.status_code == 429
    assert 0 < int(right.headers["retry-after"]) <= 61


def test_bearer_tokens_cannot_be_guessed_faster(browse):
    console = browse(secret=SECRET)
    wrong = {"Authorization": "Bearer wrong"}

    answers = [
        console.client.get("/api/overview", headers=wrong).status_code
        for _ in range(WRONG_A_MINUTE + 1)
    ]

    assert answers == [401] * WRONG_A_MINUTE + [429]
    assert console.log_in(SECRET).status_code == 429


def test_guesses_are_forgotten_after_a_minute_and_counted_over_all_addresses():
    now = [0.0]
    guesses = Guesses(lambda: now[0])
    for number in range(WRONG_A_MINUTE_BY_ALL):
        guesses.was_wrong(f"192.0.2.{number}")

    assert guesses.wait_seconds("198.51.100.1") == 60
    now[0] = 61
    assert guesses.wait_seconds("198.51.100.1") == 0


def test_those_who_are_logged_in_are_not_locked_out_by_guesses(browse):
    console = browse(secret=SECRET)
    console.log_in(SECRET)
    for _ in range(WRONG_A_MINUTE + 1):
        console.client.post("/api/session", json={"secret": "wrong"})

    assert console.client.get("/api/overview").status_code == 200


# Changing something


@pytest.mark.parametrize("options", [{}, {"secret": SECRET}], ids=["open", "secret"])
def test_a_change_needs_the_token_of_the_session(browse, options):
    console = browse(**options)
    console.log_in(SECRET) if options else console.enter()
    token = console.headers.pop("x-csrf-token")

    assert console.post(PAUSE).json()["title"] == "NoToken"
    console.headers["x-csrf-token"] = token[:-1] + ("0" if token[-1] != "0" else "1")
    assert console.post(PAUSE).json()["title"] == "NoToken"
    console.headers["x-csrf-token"] = token
    assert console.post(PAUSE).status_code == 200


def test_without_a_secret_a_change_needs_a_session(browse):
    answer = browse().post(PAUSE)

    assert (answer.status_code, answer.json()["title"]) == (403, "NoToken")


@pytest.mark.parametrize(
    "foreign",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost"},
    ],
    ids=str,
)
def test_a_foreign_page_changes_nothing_even_with_the_token(browse, foreign):
    console = browse().enter()
    console.headers |= foreign

    answer = console.post(PAUSE)

    assert (answer.status_code, answer.json()["title"]) == (403, "ForeignOrigin")
    assert console.get("switches/send_mail")["off"] is False


@pytest.mark.parametrize(
    "own", [{"Origin": "http://localhost"}, {"Sec-Fetch-Site": "same-origin"}], ids=str
)
def test_our_own_page_may(browse, own):
    console = browse().enter()
    console.headers |= own

    assert console.post(PAUSE).status_code == 200


def test_a_foreign_page_cannot_log_one_in(browse):
    console = browse(secret=SECRET)

    answer = console.client.post(
        "/api/session", json={"secret": SECRET}, headers={"Origin": "http://evil.example"}
    )

    assert answer.status_code == 403


# Roles


def test_the_bearer_of_the_secret_may_look_and_act(browse):
    console = browse(secret=SECRET, address="192.0.2.7", host="ops.example")
    console.headers = {"Authorization": f"Bearer {SECRET}", "X-Windlass-User": "deploy bot"}

    answer = console.post(PAUSE)
    log = console.client.get("/api/audit", headers=console.headers).json()["items"]

    assert answer.status_code == 200
    assert (log[0]["who"], log[0]["via"]) == ("deploy bot", "api")


@pytest.mark.parametrize("given", [f"Basic {SECRET}", SECRET, "Bearer", "Bearer "])
def test_nothing_else_in_that_header_gets_in(browse, given):
    answer = browse(secret=SECRET).client.get("/api/overview", headers={"Authorization": given})

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_viewer_may_look_and_not_act(browse):
    console = browse(secret=SECRET, viewer_secret=VIEWER_SECRET)
    session = console.log_in(VIEWER_SECRET).json()

    assert (session["role"], session["read_only"]) == ("viewer", True)
    assert console.client.get("/api/overview").status_code == 200
    assert console.post(PAUSE).json()["title"] == "ReadOnly"
    bearer = {"Authorization": f"Bearer {VIEWER_SECRET}"}
    assert console.client.post(f"/api/{PAUSE}", json={}, headers=bearer).status_code == 403


@pytest.mark.parametrize("options", [{}, {"secret": SECRET}], ids=["open", "secret"])
def test_in_a_read_only_console_nobody_acts(browse, options):
    console = browse(read_only=True, **options)
    console.log_in(SECRET) if options else console.enter()

    changes = [
        path
        for path, methods in console.client.get("/api/openapi.json").json()["paths"].items()
        if "post" in methods and path != "/api/session"
    ]
    answers = {
        path: console.post(path.removeprefix("/api/").replace("{", "").replace("}", ""))
        for path in changes
    }

    assert {answer.status_code for answer in answers.values()} == {403}
    assert {answer.json()["title"] for answer in answers.values()} == {"ReadOnly"}
    assert console.get("audit")["items"] == []


@pytest.mark.parametrize(
    "options",
    [
        {"secret": ""},
        {"secret": "  "},
        {"secret": "x" * 1_001},
        {"viewer_secret": VIEWER_SECRET},
        {"secret": SECRET, "viewer_secret": SECRET},
    ],
    ids=str,
)
def test_secrets_that_would_protect_nothing_are_refused(options):
    with closing(App("sqlite://")) as app, pytest.raises(BadInput):
        web.create(app, **options)


# What is said


def test_the_secret_is_in_no_log_and_no_answer(browse, caplog):
    caplog.set_level(logging.DEBUG)
    console = browse(secret=SECRET)
    answers = [
        console.log_in(SECRET),
        console.client.post("/api/session", json={"secret": [SECRET]}),
        console.client.post("/api/session", json={"secret": SECRET, "x": SECRET}),
        console.client.post("/api/session", content=f'{{"secret": "{SECRET}'),
        console.client.get("/api/about"),
        console.client.get("/api/session"),
    ]

    said = "".join(f"{answer.text}{answer.headers}" for answer in answers)
    assert SECRET not in said
    assert SECRET not in caplog.text


def test_a_database_password_is_not_shown(sqlite_web_shop, browse):
    sqlite_web_shop.app.database.url = sqlite_web_shop.app.database.url.set(
        username="windlass", password="hunter2"
    )
    console = browse()

    text = "".join(
        console.client.get(f"/api/{face}").text for face in ("about", "overview", "rings", "shards")
    )

    assert "windlass:***@" in text
    assert "hunter2" not in text


@pytest.mark.parametrize("path", ["/", "/tasks/7", "/api/overview", "/api/none", "/api/session"])
def test_every_answer_has_the_headers_that_keep_others_out(browse, path):
    headers = browse().client.get(path).headers

    policy = dict(
        part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["form-action"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_refusals_have_them_too(browse):
    refused = browse(host="evil.example").client.get("/api/overview")

    assert refused.headers["x-frame-options"] == "DENY"
    assert refused.headers["cache-control"] == "no-store"


def test_nothing_of_the_api_is_kept_by_browsers(browse):
    assert browse().client.get("/api/overview").headers["cache-control"] == "no-store"


# Bounds


def test_a_body_that_is_too_large_is_refused(browse):
    console = browse().enter()
    large = b'{"reason": "' + b"x" * 2_000_000 + b'"}'

    told = console.client.post(f"/api/{PAUSE}", content=large, headers=console.headers)
    untold = console.client.post(
        f"/api/{PAUSE}",
        content=(large[begin : begin + 65_536] for begin in range(0, len(large), 65_536)),
        headers=console.headers | {"content-type": "application/json"},
    )

    assert (told.status_code, untold.status_code) == (413, 413)


def test_markup_in_what_users_gave_stays_text(browse, sqlite_web_shop):
    nasty = "<script>alert(1)</script>"
    console = browse().enter()
    console.do(PAUSE, reason=nasty)
    sqlite_web_shop.send_mail.using(key=nasty).enqueue(nasty)

    answers = [
        console.client.get("/api/switches/send_mail"),
        console.client.get("/api/tasks", params={"key": nasty}),
        console.client.get(f"/api/kinds/{quote(nasty, safe='')}"),
        console.client.get("/api/audit"),
    ]

    for answer in answers:
        assert nasty in repr(answer.json())
        assert answer.headers["content-type"] in ("application/json", "application/problem+json")


@pytest.mark.parametrize("root", ["", "/", "/a", "/api", "/ops", "/api/overview", "/x/"])
@pytest.mark.parametrize("path", ["/api/overview", "/a/api/overview", "/api/api/overview"])
async def test_no_mount_path_leads_around_the_gate(sqlite_web_shop, root, path):
    sent: list[dict[str, object]] = []
    scope = {
        "type": "http",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": root,
        "query_string": b"",
        "headers": [(b"host", b"ops.example")],
        "client": ("192.0.2.7", 1),
        "server": ("ops.example", 80),
    }

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    await web.create(sqlite_web_shop.app, secret=SECRET)(scope, receive, send)

    body = b"".join(message.get("body", b"") for message in sent)
    assert b'"kinds"' not in body
    headers = dict(sent[0]["headers"])
    # What is no path of the API is the page, if that was built.
    is_page = headers.get(b"content-type", b"").startswith(b"text/html")
    assert is_page or sent[0]["status"] in (307, 401, 404)


def test_a_request_that_got_around_the_gate_is_refused_behind_it(browse, monkeypatch):
    async def let_in(self, scope, receive, send) -> None:
        await self._app(scope, receive, send)

    monkeypatch.setattr(AccessGate, "__call__", let_in)
    client = browse(secret=SECRET).client

    for path in ("overview", "tasks", "about", "audit", "switches", "events", "changes"):
        assert client.get(f"/api/{path}").status_code == 401, path


def test_what_is_mounted_is_guarded_as_well(sqlite_web_shop):
    outer = Starlette(routes=[Mount("/ops", web.create(sqlite_web_shop.app, secret=SECRET))])
    console = Console(outer)

    with console.client:
        assert console.client.get("/ops/api/overview").status_code == 401
        session = console.client.post("/ops/api/session", json={"secret": SECRET})
        assert "Path=/ops;" in session.headers["set-cookie"]
        assert console.client.get("/ops/api/overview").status_code == 200
        assert console.client.post(f"/ops/api/{PAUSE}", json={}).status_code == 403
        token = {"x-csrf-token": session.json()["token"]}
        assert console.client.post(f"/ops/api/{PAUSE}", json={}, headers=token).status_code == 200
