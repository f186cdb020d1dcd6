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
            "/overview", "/kinds", "/kinds/{kind}",
            "/rolling", "/rolling/{kind}", "/rolling/{kind}/items", "/rolling/{kind}/item",
            "/sweeps", "/sweeps/{kind}", "/sweeps/{kind}/rounds", "/sweeps/{kind}/failures",
            "/sweeps/{kind}/audit",
            "/flows", "/flows/startable", "/flows/{number}", "/flows/{number}/nodes",
            "/flows/{number}/node", "/flows/{number}/export",
            "/templates", "/templates/{name}", "/templates/{name}/versions",
            "/templates/{name}/export",
            "/control", "/control/{name}",
            "/rings", "/shards",
            "/tasks",
            "/ledgers", "/stock", "/deductions", "/returns", "/entries",
            "/ledger/deductions/{id}", "/ledger/deductions/{id}/returns", "/ledger/stocks",
            "/ledger/stocks/{sku}", "/ledger/stocks/{sku}/entries", "/ledger/audit",
            "/switches", "/switches/{kind}",
            "/alerts", "/alerts/open",
            "/audit", "/tokens", "/about", "/changes", "/events",
        ),
        # The state and the result of a task, also of a started flow.
        EVERYONE: ("/tasks/{number}",),
    },
    "POST": {
        OPERATORS: (
            "/rolling/{kind}/visit", "/rolling/{kind}/add", "/rolling/{kind}/remove",
            "/sweeps/{kind}/split", "/sweeps/{kind}/start", "/sweeps/{kind}/retry",
            "/flows/{number}/retry", "/flows/{number}/skip", "/flows/{number}/cancel",
            "/flows/{number}/edit",
            "/templates/{name}", "/templates/{name}/check",
            "/control/{name}/release", "/control/{name}/reset",
            "/tasks/retry", "/tasks/cancel", "/tasks/{number}/retry", "/tasks/{number}/cancel",
            "/switches/{kind}/pause", "/switches/{kind}/resume", "/switches/{kind}/close-breaker",
            "/switches/{kind}/set",
            "/alerts/{number}/acknowledge", "/alerts/{number}/recall",
        ),
        PRODUCERS: (
            "/flows",
            "/ledger/restocks", "/ledger/adjustments", "/ledger/deductions",
            "/ledger/deductions/{id}/returns", "/ledger/deductions/{id}/void",
            "/ledger/deductions/{id}/confirm",
        ),
        ADMINS: ("/tokens", "/tokens/{name}/revoke"),
    },
}
# fmt: on

ANY = "{}"


class Rights:
    """Who may call which route."""

    def __init__(self, rules: Iterable[tuple[str, str, Roles]]) -> None:
        # A tree by method and then by the parts of the path; None has the roles.
        self._tree: dict[str | None, Any] = {}
        for method, path, roles in rules:
            parts = (ANY if part.startswith("{") else part for part in path.split("/"))
            place = self._tree.setdefault(method, {})
            for part in parts:
                place = place.setdefault(part, {})
            place[None] = roles

    def of(self, method: str, path: str) -> Roles:
        """The roles that may send `method` to `path`, which is as it was sent."""
        # What may be read may be asked for in any way that only reads.
        method = "GET" if method in ("HEAD", "OPTIONS") else method
        found = _find(self._tree.get(method, {}), path.split("/"))
        return ADMINS if found is None else found


def _find(place: dict[str | None, Any], parts: list[str]) -> Roles | None:
    if not parts:
        found: Roles | None = place.get(None)
        return found
    first, *rest = parts
    for name in (first, ANY) if first else (first,):
        if name in place:
            below = _find(place[name], rest)
            if below is not None:
                return below
    return None


def _rules() -> Iterator[tuple[str, str, Roles]]:
    for method, groups in TABLE.items():
        for roles, paths in groups.items():
            for path in paths:
                yield method, path, roles


CONSOLE = Rights((method, f"{API}{path}", roles) for method, path, roles in _rules())
# The ledger that is served by itself has the paths that are below /api/ledger in the console.
LEDGER_ALONE = Rights(
    (method, path.removeprefix(LEDGER), roles)
    for method, path, roles in _rules()
    if path.startswith(f"{LEDGER}/")
)
