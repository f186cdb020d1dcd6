"""Single sign-on by a trusted proxy, which says in a header who the user is.

Anybody can send a header, so it counts only in requests whose TCP peer is the proxy. A server may
have replaced the address of the peer by what X-Forwarded-For says, which anybody can send, too:
`windlass console` keeps the address that the connection has, and elsewhere an address that is also
in such a header is not believed.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from starlette.datastructures import Headers

from windlass.errors import BadInput
from windlass.view.role import Role, role_of

# Where `windlass.web.serve` puts the address of the TCP peer; a request cannot set it.
PEER = "windlass.peer"
LONGEST_USER = 100
HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}")
# Headers that say something else, or that clients send by themselves.
TAKEN = frozenset(
    {"authorization", "cookie", "host", "origin", "content-type", "content-length"}
    | {"forwarded", "x-forwarded-for", "x-forwarded-proto", "x-csrf-token", "x-windlass-user"}
)
FORWARDED = ("x-forwarded-for", "forwarded", "x-real-ip")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class ProxyUser:
    """Who the proxy says the user is."""

    name: str
    role: Role


class SingleSignOn(Protocol):
    """Knows who the user of a request is: a proxy, or the application around the console."""

    def user(self, scope: Any, headers: Headers) -> ProxyUser | None:
        """The user of a request, or None. Raises Untold if that is not clear."""


class Untold(Exception):
    """The proxy has not said clearly who the user is."""


class Proxy:
    """A proxy that is trusted to say who the user is.

    `header` has the name of the user, and counts only from `address`: one address or network, or
    several. The role is in `role_header`, or it is `role`; if the header has no role, it is `role`.
    """

    def __init__(
        self,
        header: str,
        address: str | Iterable[str],
        *,
        role_header: str | None = None,
        role: str | None = Role.VIEWER,
    ) -> None:
        self.header = _checked_header(header)
        self.role_header = None if role_header is None else _checked_header(role_header)
        if self.role_header == self.header:
            raise BadInput(f"{header!r} cannot have both the name and the role of a user")
        self.role = None if role is None else role_of(role)
        if self.role is None and self.role_header is None:
            raise BadInput("give a role or a role_header; without both nobody could do anything")
        given = [address] if isinstance(address, str) else list(address)
        self.networks = tuple(map(_network, given))
        if not self.networks:
            raise BadInput(
                f"header {header!r} without the address of the proxy would let everybody in "
                "who sends it; give the address that its connections come from"
            )

    def user(self, scope: Any, headers: Headers) -> ProxyUser | None:
        """The user that the proxy names; None if the request is not from it, or it names none."""
        if not self.is_peer(scope, headers):
            return None
        name = _only(headers, self.header)
        if not name:
            return None
        if len(name) > LONGEST_USER or not name.isprintable():
            raise Untold(f"{self.header} is not a name of at most {LONGEST_USER} characters")
        return ProxyUser(name, self._role(headers))

    def is_peer(self, scope: Any, headers: Headers) -> bool:
        """Whether the connection of a request comes from the proxy."""
        is_sure = PEER in scope
        peer = scope[PEER] if is_sure else scope.get("client")
        address = None if peer is None else _address(peer[0])
        if address is None or not any(address in network for network in self.networks):
            return False
        return is_sure or address not in _forwarded(headers)

    def _role(self, headers: Headers) -> Role:
        told = None if self.role_header is None else _only(headers, self.role_header)
        if not told:
            if self.role is None:
                raise Untold(f"{self.role_header} does not say which role you have")
            return self.role
        try:
            return role_of(told)
        except BadInput as problem:
            raise Untold(f"{self.role_header}: {problem}") from None


def _only(headers: Headers, name: str) -> str:
    """The value of a header. Sent twice, one of the values may be the client's own."""
    found = headers.getlist(name)
    if len(found) > 1:
        raise Untold(f"{name} came {len(found)} times; the proxy must replace what clients send")
    return _text(found[0]).strip() if found else ""


def _text(value: str) -> str:
    """Headers are bytes; proxies send names in UTF-8."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def _checked_header(name: str) -> str:
    if not HEADER.fullmatch(name):
        raise BadInput(f"{name[:100]!r} is not the name of a header; give X-Forwarded-User or such")
    if name.lower() in TAKEN:
        raise BadInput(f"header {name!r} cannot name a user: clients send it by themselves")
    return name


def _network(text: str) -> Network:
    try:
        network = ipaddress.ip_network(text.strip())
    except ValueError as problem:
        raise BadInput(
            f"{text[:100]!r} is not the address of a proxy: {problem}; give one such as 10.0.0.5 "
            "or 10.0.0.0/24"
        ) from None
    if network.prefixlen == 0:
        raise BadInput(f"{text!r} is every address there is; name the addresses of the proxy")
    return network


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    # A socket for both families shows 10.0.0.5 as ::ffff:10.0.0.5.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _forwarded(headers: Headers) -> set[object]:
    """All addresses in headers that say where a request was before."""
    said = ",".join(value for name in FORWARDED for value in headers.getlist(name))
    words = [word.strip('"[]') for word in re.split(r"[,;=\s]+", said)]
    without_ports = [word.rpartition(":")[0].strip("[]") for word in words if ":" in word]
    return {_address(word) for word in (*words, *without_ports)}
