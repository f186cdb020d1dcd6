"""Each guard of the console, and that it holds."""

import json
import logging
import time
from base64 import urlsafe_b64decode as b64decode
from base64 import urlsafe_b64encode as b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.fixture.console import SECRET, VIEWER_SECRET, Console, Shop
from windlass import App, web
from windlass.errors import BadInput
from windlass.view.action import whoami
from windlass.web.access import AccessGate
from windlass.web.credential import (
    FORGET_SECONDS,
    LONGEST_WAIT_SECONDS,
    WRONG_AT_ONCE,
    Credentials,
    Guesses,
    Role,
    Sessions,
)
from windlass.web.link import Link
from windlass.web.serve import check_host
from windlass.web.site import make

PAUSE = "switches/send_mail/pause"


@pytest.fixture
def link() -> Iterator[Link]:
    """A link that was not used."""
    with Link.made() as made:
        made.at("http://localhost")
        yield made


@pytest.fixture
def linked(sqlite_web_shop: Shop, link: Link) -> Callable[..., Console]:
    """Open a console of the shop that has no secret but the link."""

    def opened(
        *,
        address: str | None = "127.0.0.1",
        host: str = "localhost",
        folder: Path | None = None,
        **options: Any,
    ) -> Console:
        of = link if folder is None else Link(folder)
        site = make(sqlite_web_shop.app, Credentials(link=of), **options)
        return Console(site, address=address, host=host)

    return opened


# No way in without a credential


def test_no_console_is_made_without_a_credential(sqlite_web_shop):
    with pytest.raises(BadInput, match=r"secret=\.\.\."):
        web.create(sqlite_web_shop.app)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "localhost:8484"])
@pytest.mark.parametrize("client", [("127.0.0.1", 1), ("::1", 1), None], ids=str)
def test_to_come_from_this_machine_is_not_a_credential(linked, host, client):
    console = linked(host=host, address=client and client[0])

    assert console.client.get("/api/overview").status_code == 401
    assert console.client.get("/api/session").json()["is_logged_in"] is False
    assert console.post(PAUSE).status_code == 401


def test_the_link_is_traded_for_a_cookie_once_and_leaves_the_address_bar(linked, link):
    first, second = linked(), linked()

    answer = first.client.get(f"/login?token={link.token}", follow_redirects=False)
    again = second.client.get(f"/login?token={link.token}", follow_redirects=False)

    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert answer.headers["cache-control"] == "no-store"
    assert link.token not in str(answer.headers) + answer.text
    assert first.client.get("/api/overview").status_code == 200
    assert (again.status_code, again.headers["location"]) == (303, "/")
    assert "set-cookie" not in again.headers
    assert second.client.get("/api/overview").status_code == 401


def test_who_followed_the_link_may_act_with_the_token_of_the_session(linked, link):
    console = linked()
    console.client.get(f"/login?token={link.token}", follow_redirects=False)

    assert console.post(PAUSE).json()["title"] == "NoToken"
    console.headers["x-csrf-token"] = console.get("session")["token"]
    console.do(PAUSE)
    assert console.get("audit")["items"][0]["who"] == whoami()


def test_a_program_may_trade_the_token_instead_but_it_is_not_a_bearer_token(linked, link):
    console = linked()
    bearer = {"Authorization": f"Bearer {link.token}"}

    assert console.client.get("/api/overview", headers=bearer).status_code == 401
    assert console.log_in(link.token).status_code == 200
    console.do(PAUSE)
    assert linked().log_in(link.token).status_code == 401


@pytest.mark.parametrize("token", ["", "x", "é", "0" * 64])
def test_a_wrong_link_opens_nothing_and_does_not_use_up_the_right_one(linked, link, token):
    console = linked()

    answer = console.client.get("/login", params={"token": token}, follow_redirects=False)

    assert "set-cookie" not in answer.headers
    assert console.client.get("/api/overview").status_code == 401
    assert console.log_in(link.token).status_code == 200


def test_a_link_that_is_loaded_ahead_is_not_used_up(linked, link):
    ahead = {"Sec-Purpose": "prefetch;prerender"}
    linked().client.get(f"/login?token={link.token}", headers=ahead, follow_redirects=False)

    assert linked().log_in(link.token).status_code == 200


def test_a_restarted_console_knows_its_sessions_and_that_the_link_was_used(linked, link):
    before = linked()
    before.log_in(link.token)

    after = linked(folder=link.folder)
    after.client.cookies = before.client.cookies

    assert after.client.get("/api/overview").status_code == 200
    assert linked(folder=link.folder).log_in(link.token).status_code == 401


def test_the_files_of_a_link_are_private_and_go_with_it():
    with Link.made() as link:
        link.at("http://127.0.0.1:8484")
        mode = link.folder.stat().st_mode & 0o777

    assert mode == 0o700
    assert not link.folder.exists()


def test_consoles_on_two_ports_do_not_log_each_other_out(browse):
    cookies = {
        port: browse(secret=SECRET, host=f"localhost:{port}").log_in(SECRET).headers["set-cookie"]
        for port in (8484, 8485)
    }

    assert len({cookie.partition("=")[0] for cookie in cookies.values()}) == 2


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io"])
def test_a_name_that_was_made_to_point_here_does_not_get_in(linked, link, host):
    answer = linked(host=host).log_in(link.token)

    assert (answer.status_code, answer.json()["title"]) == (403, "NotLocal")


def test_without_a_secret_another_machine_does_not_get_in(linked, link):
    console = linked(address="192.0.2.7")

    assert console.log_in(link.token).status_code == 403
    assert console.client.get("/").status_code == 403


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded"])
def test_without_a_secret_what_comes_through_a_proxy_does_not_get_in(linked, link, header):
    path = f"/login?token={link.token}"
    answer = linked().client.get(path, headers={header: "127.0.0.1"}, follow_redirects=False)

    assert answer.status_code == 403


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::", "example.com"])
def test_other_addresses_are_refused_without_a_secret_and_with_a_short_one(host):
    with pytest.raises(BadInput, match="WINDLASS_CONSOLE_SECRET"):
        check_host(host, None)
    with pytest.raises(BadInput, match="at least 16"):
        check_host(host, "x" * 15)
    with pytest.raises(BadInput, match="viewer_secret has 15 characters"):
        check_host(host, SECRET, "x" * 15)

    check_host(host, "x" * 16)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "::1", "[::1]"])
def test_addresses_of_this_machine_need_no_secret_or_a_short_one(host):
    check_host(host, None)
    check_host(host, "short")


def test_a_short_secret_is_for_this_machine_only_even_behind_a_proxy(sqlite_web_shop):
    site = make(sqlite_web_shop.app, Credentials("short"))

    assert Console(site).log_in("short").status_code == 200
    assert Console(site, address="192.0.2.7").log_in("short").status_code == 403
    assert Console(site, host="ops.example").log_in("short").status_code == 403


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
    def sessions(secret: str) -> Sessions:
        return Sessions(Credentials(secret).session_keys())

    _, cookie = sessions(SECRET).begin("Ada", Role.ADMIN)

    assert sessions(SECRET).read(cookie) is not None
    assert sessions("another secret").read(cookie) is None
    monkeypatch.setattr("time.time", lambda: 4e9)
    assert sessions(SECRET).read(cookie) is None


def test_the_cookie_of_a_viewer_has_nothing_of_the_secret_of_operators(monkeypatch):
    monkeypatch.setattr("secrets.token_urlsafe", lambda _bytes: "id")
    monkeypatch.setattr("time.time", lambda: 1e9)

    def cookie(secret: str, role: Role) -> str:
        return Sessions(Credentials(secret, VIEWER_SECRET).session_keys()).begin("Eve", role)[1]

    assert cookie(SECRET, Role.VIEWER) == cookie("another secret!!", Role.VIEWER)
    assert cookie(SECRET, Role.ADMIN) != cookie("another secret!!", Role.ADMIN)


def test_a_secret_cannot_be_tried_against_a_cookie_without_much_work():
    began = time.process_time()
    Credentials(uuid4().hex).session_keys()

    # A plain hash takes a microsecond.
    assert time.process_time() - began > 0.02


def test_a_viewer_cannot_make_an_operator_of_the_cookie(browse):
    console = browse(secret=SECRET, viewer_secret=VIEWER_SECRET)
    console.log_in(VIEWER_SECRET)
    body, _, signature = console.client.cookies["windlass_session"].partition(".")
    claim = json.loads(b64decode(f"{body}==")) | {"role": "admin"}
    forged = b64encode(json.dumps(claim).encode()).decode().rstrip("=")

    console.client.cookies.clear()
    cookie = {"cookie": f"windlass_session={forged}.{signature}"}

    assert console.client.get("/api/overview", headers=cookie).status_code == 401


# Guessing


def wrong_answers(console, given: str, times: int = 1) -> list[int]:
    bearer = {"Authorization": f"Bearer {given}"}
    return [console.client.get("/api/overview", headers=bearer).status_code for _ in range(times)]


def test_after_some_wrong_secrets_one_is_told_to_wait_and_the_right_one_still_gets_in(browse):
    console = browse(secret=SECRET)
    answers = [console.log_in("wrong") for _ in range(WRONG_AT_ONCE + 3)]

    right = console.log_in(SECRET)

    assert [answer.status_code for answer in answers] == [401] * WRONG_AT_ONCE + [429] * 3
    assert [answer.headers["retry-after"] for answer in answers[-3:]] == ["1", "2", "4"]
    assert right.status_code == 200


def test_bearer_tokens_are_counted_alike_and_the_right_one_is_never_refused(browse):
    console = browse(secret=SECRET, viewer_secret=VIEWER_SECRET)

    assert wrong_answers(console, "wrong", WRONG_AT_ONCE + 1) == [401] * WRONG_AT_ONCE + [429]
    for number in range(100):
        wrong_answers(console, f"guess {number}")

    for secret in (SECRET, VIEWER_SECRET):
        assert wrong_answers(console, secret) == [200]
        assert console.log_in(secret).status_code == 200


def test_a_session_is_right_whatever_is_sent_to_a_proxy_in_front_of_the_console(browse):
    console = browse()
    basic = {"Authorization": "Basic b3BzOnNlY3JldA=="}

    for _ in range(WRONG_AT_ONCE + 1):
        assert console.client.get("/api/overview", headers=basic).status_code == 200
    console.headers |= basic
    assert console.post(PAUSE).status_code == 200
    del console.headers["x-csrf-token"]
    assert console.post(PAUSE).json()["title"] == "NoToken"


def test_wrong_secrets_of_all_addresses_shut_nobody_out(sqlite_web_shop):
    site = web.create(sqlite_web_shop.app, secret=SECRET)
    for number in range(70):
        Console(site, address=f"192.0.2.{number}").log_in("wrong")

    assert Console(site, address="198.51.100.1").log_in("wrong").status_code == 401
    assert Console(site, address="198.51.100.1").log_in(SECRET).status_code == 200


def test_who_repeats_one_wrong_secret_makes_only_itself_wait():
    guesses = Guesses(lambda: 0.0)
    for _ in range(50):
        repeated = guesses.was_wrong("192.0.2.7", "outdated")

    assert repeated == LONGEST_WAIT_SECONDS
    assert guesses.was_wrong("192.0.2.7", "typo") == 0
    assert guesses.was_wrong("192.0.2.8", "outdated") == 0


def test_who_sends_many_different_secrets_waits_longer_each_time_until_it_is_forgotten(caplog):
    now = [0.0]
    guesses = Guesses(lambda: now[0])

    waits = [guesses.was_wrong("192.0.2.7", f"guess {number}") for number in range(20)]

    assert waits[:WRONG_AT_ONCE] == [0] * WRONG_AT_ONCE
    assert waits[WRONG_AT_ONCE : WRONG_AT_ONCE + 3] == [1, 2, 4]
    assert waits[-1] == LONGEST_WAIT_SECONDS
    assert "wrong secrets came from 192.0.2.7" in caplog.text
    assert "guess" not in caplog.text
    now[0] = FORGET_SECONDS + 1
    assert guesses.was_wrong("192.0.2.7", "guess 0") == 0


def test_what_is_remembered_of_guesses_is_bounded(monkeypatch):
    monkeypatch.setattr("windlass.web.credential.MOST_TALLIES", 100)
    guesses = Guesses()
    for number in range(1_000):
        guesses.was_wrong(f"192.0.2.{number}", f"guess {number}")

    assert len(guesses._tallies) == 100


def test_those_who_are_logged_in_are_not_locked_out_by_guesses(browse):
    console = browse(secret=SECRET)
    console.log_in(SECRET)
    for _ in range(WRONG_AT_ONCE + 1):
        console.client.post("/api/session", json={"secret": "wrong"})

    assert console.client.get("/api/overview").status_code == 200


# Changing something


def test_a_change_needs_the_token_of_the_session(browse):
    console = browse()
    token = console.headers.pop("x-csrf-token")

    assert console.post(PAUSE).json()["title"] == "NoToken"
    console.headers["x-csrf-token"] = token[:-1] + ("0" if token[-1] != "0" else "1")
    assert console.post(PAUSE).json()["title"] == "NoToken"
    console.headers["x-csrf-token"] = token
    assert console.post(PAUSE).status_code == 200


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
    console = browse()
    console.headers |= foreign

    answer = console.post(PAUSE)

    assert (answer.status_code, answer.json()["title"]) == (403, "ForeignOrigin")
    assert console.get("switches/send_mail")["off"] is False


@pytest.mark.parametrize(
    "own", [{"Origin": "http://localhost"}, {"Sec-Fetch-Site": "same-origin"}], ids=str
)
def test_our_own_page_may(browse, own):
    console = browse()
    console.headers |= own

    assert console.post(PAUSE).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_body_must_say_that_it_is_json(browse, kind):
    console = browse()
    headers = console.headers | {"content-type": kind}

    answer = console.client.post(f"/api/{PAUSE}", content=b"{}", headers=headers)

    assert (answer.status_code, answer.json()["title"]) == (415, "NotJson")


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


@pytest.mark.parametrize("way", ["link", "secret"])
def test_in_a_read_only_console_nobody_acts(browse, linked, link, way):
    console = linked(read_only=True) if way == "link" else browse(read_only=True)
    if way == "link":
        console.log_in(link.token)

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
        {"secret": "x" * 15},
        {"secret": SECRET, "viewer_secret": "x" * 15},
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


def test_refusals_have_them_too(linked):
    refused = linked(host="evil.example").client.get("/api/overview")

    assert refused.headers["x-frame-options"] == "DENY"
    assert refused.headers["cache-control"] == "no-store"


def test_nothing_of_the_api_is_kept_by_browsers(browse):
    assert browse().client.get("/api/overview").headers["cache-control"] == "no-store"


# Bounds


def test_a_body_that_is_too_large_is_refused(browse):
    console = browse()
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
    console = browse()
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
        await self.app(scope, receive, send)

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
