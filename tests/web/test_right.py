"""What each role may do: every route of the API, with every role, against one table."""

import re

import pytest

from tests.fixture.console import SECRET, Console
from windlass import web
from windlass.ledger import Ledger
from windlass.ledger import http as ledger_http
from windlass.operate.token.operate import FleetTokens
from windlass.view.role import Role
from windlass.web.access import allowed_to
from windlass.web.right import API, CONSOLE, LEDGER_ALONE, TABLE
from windlass.web.site import OPEN

# Who may do what beside seeing, which viewers, operators and admins may everywhere.
FOR_PRODUCERS_TOO = {
    ("get", "/api/tasks/{number}"),
    ("get", "/api/tasks/{number}/result"),
    ("post", "/api/tasks"),
    ("post", "/api/tasks/many"),
    ("post", "/api/flows"),
    ("post", "/api/notify"),
    ("post", "/api/control/{name}/start"),
    ("post", "/api/control/{name}/step"),
    ("post", "/api/control/{name}/note"),
    ("post", "/api/control/{name}/finish"),
    ("post", "/api/control/{name}/error"),
    ("post", "/api/ledger/restocks"),
    ("post", "/api/ledger/adjustments"),
    ("post", "/api/ledger/deductions"),
    ("post", "/api/ledger/deductions/{id}/returns"),
    ("post", "/api/ledger/deductions/{id}/exchanges"),
    ("post", "/api/ledger/deductions/{id}/void"),
    ("post", "/api/ledger/deductions/{id}/confirm"),
}
FOR_ADMINS_ONLY = {("post", "/api/tokens"), ("post", "/api/tokens/{name}/revoke")}


def expected(method: str, path: str) -> set[Role]:
    if (method, path) in FOR_ADMINS_ONLY:
        return {Role.ADMIN}
    roles = {Role.OPERATOR, Role.ADMIN} | ({Role.VIEWER} if method == "get" else set())
    return roles | ({Role.PRODUCER} if (method, path) in FOR_PRODUCERS_TOO else set())


def places(document) -> list[tuple[str, str]]:
    return [(method, path) for path, found in document["paths"].items() for method in found]


@pytest.fixture
def bearers(sqlite_web_shop):
    """The header of a token of each role."""
    tokens = FleetTokens(sqlite_web_shop.app.fleet)
    made = {role: tokens.create(f"a-{role}", role, who="Ada").token for role in Role}
    return {role: {"Authorization": f"Bearer {token}"} for role, token in made.items()}


def sent(client, method: str, path: str, header: dict[str, str]) -> int:
    """What a malformed request is answered: the gate comes first."""
    filled = re.sub(r"\{\w+\}", "-", path)
    body = {"json": ["malformed"]} if method == "post" else {}
    if path == "/api/events":
        # It would not end; with a number of listeners that is full it is 409.
        return 200
    return client.request(method, filled, headers=header, **body).status_code


def test_every_route_is_in_the_table_and_the_table_has_no_other(browse):
    document = browse().client.get("/api/openapi.json").json()
    routes = {(method, path) for method, path in places(document) if path.startswith(API)} - {
        (method, path) for method, path in places(document) if path in OPEN
    }

    declared = [
        (method.lower(), f"{API}{path}")
        for method, groups in TABLE.items()
        for paths in groups.values()
        for path in paths
    ]

    assert len(declared) == len(set(declared))
    assert set(declared) == routes, "say in windlass.web.right who may call it"


def test_the_table_says_what_each_role_may(browse):
    document = browse().client.get("/api/openapi.json").json()

    for method, path in places(document):
        if path.startswith(API) and path not in OPEN:
            assert allowed_to(CONSOLE, method.upper(), path) == expected(method, path), (
                method,
                path,
            )


@pytest.mark.parametrize("role", Role)
def test_the_gate_lets_each_role_do_that_and_nothing_else(browse, bearers, role):
    console = browse(secret=SECRET)
    document = console.client.get("/api/openapi.json").json()

    for method, path in places(document):
        if not path.startswith(API) or path in OPEN or path == "/api/events":
            continue
        code = sent(console.client, method, path, bearers[role])
        if role in expected(method, path):
            assert code not in (401, 403), (method, path, code)
        else:
            assert code == 403, (method, path, code)


def test_a_refusal_says_which_role_one_has_and_needs(browse, bearers):
    console = browse(secret=SECRET)

    answer = console.client.get("/api/overview", headers=bearers[Role.PRODUCER])
    made = console.client.post("/api/tokens", json={}, headers=bearers[Role.OPERATOR])

    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.json()["title"], answer.json()["role"]) == ("NotAllowed", "producer")
    assert answer.json()["needs"] == ["viewer", "operator", "admin"]
    assert "the role operator may not POST this" in made.json()["detail"]


@pytest.mark.parametrize(
    "path", ["/api/none", "/api/overview/", "/api//overview", "/api/tasks/1/x"]
)
def test_a_route_that_is_not_in_the_table_is_for_admins(browse, bearers, path):
    console = browse(secret=SECRET)

    for role in set(Role) - {Role.ADMIN}:
        assert console.client.get(path, headers=bearers[role]).status_code == 403
    assert console.client.delete(path, headers=bearers[Role.VIEWER]).status_code == 403


@pytest.mark.parametrize("path", ["/api/%6Fverview", "/api/./overview", "/api/overview%2F"])
def test_no_way_of_writing_a_path_leads_around_the_table(browse, bearers, path):
    console = browse(secret=SECRET)

    assert console.client.get(path, headers=bearers[Role.PRODUCER]).status_code in (403, 404)


def test_in_a_read_only_console_no_role_changes_anything_and_none_sees_more(browse, bearers):
    console = browse(secret=SECRET, read_only=True)
    document = console.client.get("/api/openapi.json").json()

    for method, path in places(document):
        if method == "post" and path.startswith(API) and path not in OPEN:
            for role in Role:
                answer = sent(console.client, method, path, bearers[role])
                assert answer == 403, (path, role)
    assert sent(console.client, "get", "/api/overview", bearers[Role.PRODUCER]) == 403
    assert sent(console.client, "get", "/api/overview", bearers[Role.VIEWER]) == 200


def test_the_shared_secret_is_an_admin_and_the_viewer_secret_a_viewer(browse):
    console = browse(secret=SECRET)

    assert console.log_in(SECRET).json()["role"] == "admin"
    assert console.post("tokens", name="a", role="viewer").status_code == 200


# The ledger by itself


@pytest.fixture
def ledger(sqlite_url):
    made = Ledger(sqlite_url)
    yield made
    made.close()


def test_the_ledger_by_itself_takes_the_same_tokens(ledger, bearers):
    console = Console(ledger_http.create(ledger, secret=SECRET))
    body = {"id": "delivery", "lines": [{"sku": "A", "quantity": 5}]}

    moved = {
        role: console.client.post("/restocks", json=body, headers=bearers[role]).status_code
        for role in (Role.VIEWER, Role.PRODUCER, Role.OPERATOR, Role.ADMIN)
    }
    seen = {
        role: console.client.get("/stocks/A", headers=bearers[role]).status_code for role in Role
    }

    assert moved == {
        Role.VIEWER: 403,
        Role.PRODUCER: 201,
        Role.OPERATOR: 200,
        Role.ADMIN: 200,
    }
    assert seen == {
        Role.VIEWER: 200,
        Role.OPERATOR: 200,
        Role.PRODUCER: 403,
        Role.ADMIN: 200,
    }
    assert ledger.stock("A").available == 5


def test_every_route_of_the_ledger_by_itself_is_in_the_table(ledger):
    document = ledger_http.create(ledger, secret=SECRET).openapi()

    for method, path in places(document):
        roles = allowed_to(LEDGER_ALONE, method.upper(), path)
        assert roles == expected(method, f"/api/ledger{path}"), (method, path)


def test_a_token_that_is_revoked_moves_nothing_in_the_ledger(ledger, bearers, sqlite_web_shop):
    console = Console(ledger_http.create(ledger, secret=SECRET))
    FleetTokens(sqlite_web_shop.app.fleet).revoke("a-producer", who="Ada")

    answer = console.client.post("/restocks", json={}, headers=bearers[Role.PRODUCER])

    assert answer.status_code == 401
    assert answer.json()["detail"] == "the token a-producer was revoked"


def test_a_console_is_made_with_a_proxy_and_without_a_secret(sqlite_web_shop):
    web.create(sqlite_web_shop.app, proxy=web.Proxy("X-Forwarded-User", "10.0.0.5"))
