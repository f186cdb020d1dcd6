"""Single sign-on: a header is believed from the proxy only."""

import pytest

from tests.fixture.console import SECRET, Console
from windlass import web
from windlass.errors import BadInput
from windlass.web.credential import Credentials
from windlass.web.proxy import PEER
from windlass.web.serve import check_host, with_peer
from windlass.web.site import make

USER = "X-Forwarded-User"
ROLE = "X-Forwarded-Role"
PROXY = "10.0.0.5"
PAUSE = "switches/send_mail/pause"


@pytest.fixture
def behind(sqlite_web_shop):
    """A console behind the proxy, as a request from `address` finds it."""

    def opened(address=PROXY, *, secret=None, **options):
        proxy = web.Proxy(USER, [PROXY, "192.168.7.0/24", "fd00::/8"], **options)
        site = web.create(sqlite_web_shop.app, secret=secret, proxy=proxy)
        return Console(site, address=address, host="ops.example")

    return opened


def test_the_proxy_names_the_user_and_the_audit_log_has_the_name(behind):
    console = behind(role="operator")
    console.client.headers[USER] = "ada@example.com"

    session = console.get("session")
    console.headers["x-csrf-token"] = session["token"]
    console.do(PAUSE)

    assert (session["name"], session["role"], session["by"]) == (
        "ada@example.com",
        "operator",
        "proxy",
    )
    deed = console.get("audit")["items"][0]
    assert (deed["who"], deed["via"]) == ("ada@example.com", "console proxy")


@pytest.mark.parametrize("address", ["192.168.7.31", "::ffff:10.0.0.5", "fd00::7"])
def test_networks_and_both_families_are_understood(behind, address):
    console = behind(address)

    assert console.client.get("/api/overview", headers={USER: "ada"}).status_code == 200


@pytest.mark.parametrize(
    "address", ["10.0.0.6", "127.0.0.1", "::1", "192.168.8.1", "203.0.113.9", None]
)
def test_a_spoofed_header_never_logs_in(behind, address):
    console = behind(address, role="admin")
    spoofed = {USER: "ada", "X-Forwarded-For": PROXY, "Forwarded": f"for={PROXY}"}

    for header in ({USER: "ada"}, spoofed):
        assert console.client.get("/api/overview", headers=header).status_code == 401
        assert console.client.get("/api/session", headers=header).json()["name"] is None
        assert console.client.post(f"/api/{PAUSE}", json={}, headers=header).status_code == 401


@pytest.mark.parametrize("name", ["X-Forwarded-For", "X-Real-Ip", "Forwarded"])
@pytest.mark.parametrize("value", [PROXY, f"1.2.3.4, {PROXY}", f"{PROXY}:4711", f'for="{PROXY}"'])
def test_an_address_that_a_server_took_from_a_header_is_not_believed(behind, name, value):
    console = behind()
    header = {USER: "ada", name: value}

    assert console.client.get("/api/overview", headers=header).status_code == 401


async def test_the_own_server_keeps_the_peer_whatever_the_headers_say():
    seen = []

    async def site(scope, receive, send):
        seen.append((scope[PEER], scope["client"], scope["scheme"]))

    served = with_peer(site, web.Proxy(USER, PROXY))
    for peer in ("127.0.0.1", PROXY, "203.0.113.9"):
        headers = [(b"x-forwarded-for", b"198.51.100.7"), (b"x-forwarded-proto", b"https")]
        scope = {"type": "http", "client": (peer, 5), "scheme": "http", "headers": headers}
        await served(scope, None, None)

    assert seen == [
        (("127.0.0.1", 5), ("198.51.100.7", 0), "https"),
        ((PROXY, 5), ("198.51.100.7", 0), "https"),
        (("203.0.113.9", 5), ("203.0.113.9", 5), "http"),
    ]


async def test_behind_the_own_server_a_forged_address_is_not_the_proxy(sqlite_web_shop):
    site = web.create(sqlite_web_shop.app, proxy=web.Proxy(USER, PROXY, role="admin"))
    served = Console(with_peer(site, None), address="127.0.0.1")
    own = Console(with_peer(site, None), address=PROXY)
    forged = {USER: "ada", "X-Forwarded-For": PROXY}

    assert served.client.get("/api/overview", headers=forged).status_code == 401
    # A user on the machine of the proxy itself.
    assert own.client.get("/api/overview", headers=forged).status_code == 200


def test_a_header_that_came_twice_is_refused(behind):
    console = behind()
    twice = [(USER, "admin"), (USER, "ada")]

    answer = console.client.get("/api/overview", headers=twice)

    assert (answer.status_code, answer.json()["title"]) == (403, "UnknownUser")


@pytest.mark.parametrize("name", ["x" * 101, "a\x01b"])
def test_a_name_that_is_none_is_refused(behind, name):
    assert behind().client.get("/api/overview", headers={USER: name}).status_code == 403


def test_without_a_name_one_has_to_log_in(behind):
    for header in ({}, {USER: ""}, {USER: "  "}):
        assert behind().client.get("/api/overview", headers=header).status_code == 401


def test_names_may_have_any_letter(behind):
    console = behind()

    session = console.client.get("/api/session", headers={USER: "沈括".encode()}).json()

    assert session["name"] == "沈括"


@pytest.mark.parametrize(
    ("options", "told", "role"),
    [
        ({}, None, "viewer"),
        ({}, "admin", "viewer"),
        ({"role": "operator"}, None, "operator"),
        ({"role_header": ROLE}, "admin", "admin"),
        ({"role_header": ROLE}, " Operator ", "operator"),
        ({"role_header": ROLE}, None, "viewer"),
        ({"role_header": ROLE, "role": None}, "viewer", "viewer"),
    ],
    ids=str,
)
def test_the_role_is_the_one_that_is_set_or_in_the_header(behind, options, told, role):
    header = {USER: "ada"} | ({} if told is None else {ROLE: told})

    session = behind(**options).client.get("/api/session", headers=header).json()

    assert session["role"] == role


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"role_header": ROLE}, "king"),
        ({"role_header": ROLE}, "viewer,admin"),
        ({"role_header": ROLE, "role": None}, None),
    ],
    ids=str,
)
def test_an_unknown_role_is_refused(behind, options, told):
    header = {USER: "ada"} | ({} if told is None else {ROLE: told})

    answer = behind(**options).client.get("/api/overview", headers=header)

    assert (answer.status_code, answer.json()["title"]) == (403, "UnknownUser")


def test_a_foreign_page_cannot_use_the_proxys_login(behind):
    console = behind(role="admin")
    user = {USER: "ada"}
    token = console.client.get("/api/session", headers=user).json()["token"]
    other = console.client.get("/api/session", headers={USER: "eve"}).json()["token"]

    def pause(**more):
        header = user | {name.replace("_", "-"): value for name, value in more.items()}
        return console.client.post(f"/api/{PAUSE}", json={}, headers=header)

    assert pause().json()["title"] == "NoToken"
    assert pause(x_csrf_token=other).json()["title"] == "NoToken"
    foreign = pause(x_csrf_token=token, sec_fetch_site="cross-site")
    assert foreign.json()["title"] == "ForeignOrigin"
    assert pause(x_csrf_token=token).status_code == 200


def test_the_proxy_knows_better_than_a_cookie(behind):
    console = behind(secret=SECRET)
    console.log_in(SECRET, name="Grace")

    session = console.client.get("/api/session", headers={USER: "ada"}).json()

    assert (session["name"], session["role"]) == ("ada", "viewer")


def test_the_secret_and_tokens_still_work_beside_the_proxy(behind):
    console = behind("203.0.113.9", secret=SECRET)

    assert console.log_in(SECRET).status_code == 200
    made = console.do("tokens", name="deploy", role="viewer")
    bearer = {"Authorization": f"Bearer {made['token']}", USER: "ada"}
    deploy = behind("203.0.113.9").client.get("/api/session", headers=bearer).json()
    assert (deploy["name"], deploy["by"]) == ("token deploy", "token")


def test_without_a_proxy_the_header_means_nothing(sqlite_web_shop):
    console = Console(make(sqlite_web_shop.app, Credentials(SECRET)), address=PROXY)

    assert console.client.get("/api/overview", headers={USER: "ada"}).status_code == 401


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"address": []}, "without the address of the proxy"),
        ({"address": "0.0.0.0/0"}, "every address"),
        ({"address": "::/0"}, "every address"),
        ({"address": "10.0.0.5/8"}, "host bits set"),
        ({"address": "proxy.example"}, "not the address of a proxy"),
        ({"header": "Authorization"}, "clients send it"),
        ({"header": "X Forwarded"}, "not the name of a header"),
        ({"header": ""}, "not the name of a header"),
        ({"role": "king"}, "not a role"),
        ({"role": None}, "give a role or a role_header"),
        ({"role_header": USER}, "both the name and the role"),
    ],
    ids=str,
)
def test_a_proxy_that_would_protect_nothing_is_refused_at_the_start(options, said):
    given = {"header": USER, "address": PROXY} | options

    with pytest.raises(BadInput, match=said):
        web.Proxy(given.pop("header"), given.pop("address"), **given)


def test_behind_a_proxy_a_short_secret_is_refused_and_no_secret_is_needed():
    proxy = web.Proxy(USER, PROXY)

    check_host("0.0.0.0", None, proxy=proxy)
    check_host("127.0.0.1", None, proxy=proxy)
    with pytest.raises(BadInput, match="at least 16"):
        check_host("127.0.0.1", "short", proxy=proxy)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--proxy-header", USER), "needs --proxy-address"),
        (("--proxy-address", PROXY), "need --proxy-header"),
        (("--proxy-header", USER, "--proxy-address", "0.0.0.0/0"), "every address"),
        (("--proxy-header", USER, "--proxy-address", PROXY, "--proxy-role", "x"), "not a role"),
    ],
    ids=str,
)
def test_the_command_refuses_half_a_proxy(windlass, shop, options, said):
    answer = windlass("console", f"{shop.__name__}:app", *options)

    assert answer.code in (1, 2)
    assert said in answer.err
