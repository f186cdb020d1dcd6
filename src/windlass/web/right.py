"""What each role may do: the one table of all routes and of who may call them.

The gate asks it before every request. A route that is not in the table is for admins only, and a
test fails until it is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from windlass.view.role import Role

Roles = frozenset[Role]

VIEWERS: Roles = frozenset({Role.VIEWER, Role.OPERATOR, Role.ADMIN})
OPERATORS: Roles = frozenset({Role.OPERATOR, Role.ADMIN})
# Programs that give work to do.
PRODUCERS: Roles = OPERATORS | {Role.PRODUCER}
EVERYONE: Roles = VIEWERS | PRODUCERS
ADMINS: Roles = frozenset({Role.ADMIN})

API = "/api"
LEDGER = "/ledger"

# fmt: off
TABLE: dict[str, Mapping[Roles, tuple[str, ...]]] = {
    "GET": {
        VIEWERS: (
            "/overview", "/kinds", "/kinds/{kind}", "/kinds/{kind}/form",
            "/rolling", "/rolling/{kind}", "/rolling/{kind}/items", "/rolling/{kind}/item",
            "/sweeps", "/sweeps/{kind}", "/sweeps/{kind}/rounds", "/sweeps/{kind}/failures",
            "/sweeps/{kind}/audit", "/sweeps/{kind}/runs",
            "/flows", "/flows/startable", "/flows/{number}", "/flows/{number}/nodes",
            "/flows/{number}/node", "/flows/{number}/export",
            "/templates", "/templates/{name}", "/templates/{name}/versions",
            "/templates/{name}/export",
            "/control", "/control/{name}",
            "/queues", "/queues/{name}", "/queues/{name}/failed",
            "/rings", "/shards",
            "/tasks", "/tasks/{number}/logs", "/crons", "/crons/{kind}",
            "/ledgers", "/stock", "/deductions", "/returns", "/entries",
            "/ledger/deductions/{id}", "/ledger/deductions/{id}/returns", "/ledger/stocks",
            "/ledger/stocks/{sku}", "/ledger/stocks/{sku}/entries", "/ledger/audit",
            "/pauses", "/switches", "/switches/{kind}", "/downstreams", "/downstreams/{name}",
            "/promises", "/promises/{kind}",
            "/alerts", "/alerts/open", "/alerts/{number}", "/channels",
            "/audit", "/tokens", "/about", "/changes", "/events",
        ),
        # The state and the result of a task, also of a started flow.
        EVERYONE: ("/tasks/{number}", "/tasks/{number}/result"),
    },
    "POST": {
        OPERATORS: (
            "/rolling/{kind}/visit", "/rolling/{kind}/visit-soon",
            "/rolling/{kind}/add", "/rolling/{kind}/remove",
            "/sweeps/{kind}/split", "/sweeps/{kind}/start", "/sweeps/{kind}/retry",
            "/sweeps/{kind}/cancel",
            "/sweeps/{kind}/visit", "/sweeps/{kind}/visit-soon",
            "/flows/{number}/retry", "/flows/{number}/skip", "/flows/{number}/cancel",
            "/flows/{number}/edit",
            "/templates/{name}", "/templates/{name}/check",
            "/control/{name}/release", "/control/{name}/reset",
            "/queues/{name}/retry", "/queues/{name}/drop",
            "/tasks/retry", "/tasks/cancel", "/tasks/{number}/retry", "/tasks/{number}/cancel",
            "/crons/{kind}/run", "/crons/{kind}/set", "/crons/{kind}/reset",
            "/pause", "/resume",
            "/switches/{kind}/pause", "/switches/{kind}/resume", "/switches/{kind}/close-breaker",
            "/switches/{kind}/set",
            "/alerts/{number}/acknowledge", "/alerts/{number}/recall", "/channels/{name}/test",
        ),
        PRODUCERS: (
            "/tasks", "/tasks/many", "/flows", "/notify",
            "/control/{name}/start", "/control/{name}/step", "/control/{name}/note",
            "/control/{name}/finish", "/control/{name}/error",
            "/ledger/restocks", "/ledger/adjustments", "/ledger/deductions",
            "/ledger/deductions/{id}/returns", "/ledger/deductions/{id}/exchanges",
            "/ledger/deductions/{id}/void", "/ledger/deductions/{id}/confirm",
        ),
        ADMINS: ("/tokens", "/tokens/{name}/revoke"),
    },
}
# fmt: on

# Beside the API: what a monitoring system reads. `/healthz` and `/readyz` are for everyone.
PLAIN: Mapping[str, Roles] = {"/metrics": VIEWERS}

# A part of a path that may be anything.
ANY = "{}"
# By method and then by the parts of the path; None has the roles.
Rights = dict[str | None, Any]


def tree(rules: Iterable[tuple[str, str, Roles]]) -> Rights:
    """The rules as the gate follows them, part of the path by part."""
    tree: Rights = {}
    for method, path, roles in rules:
        place = tree.setdefault(method, {})
        for part in path.split("/"):
            place = place.setdefault(ANY if part.startswith("{") else part, {})
        place[None] = roles
    return tree


def _rules() -> Iterator[tuple[str, str, Roles]]:
    for method, groups in TABLE.items():
        for roles, paths in groups.items():
            for path in paths:
                yield method, path, roles


CONSOLE = tree(
    (
        *((method, f"{API}{path}", roles) for method, path, roles in _rules()),
        *(("GET", path, roles) for path, roles in PLAIN.items()),
    )
)
# The ledger that is served by itself has the paths that are below /api/ledger in the console.
LEDGER_ALONE = tree(
    (method, path.removeprefix(LEDGER), roles)
    for method, path, roles in _rules()
    if path.startswith(f"{LEDGER}/")
)
