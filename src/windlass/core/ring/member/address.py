"""The address of a coordinator: its URL, and who may use it.

`etcd://user:password@one,two?ca=ca.pem`. What the URL does not say about the user and certificates
comes from the environment, so that no secret needs to be in the code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl, unquote

from windlass.errors import BadMembers

PORTS = {"etcd": 2379, "zookeeper": 2181}
FILES = ("ca", "cert", "key")
VARIABLES = {
    "user": "WINDLASS_MEMBERS_USER",
    "password": "WINDLASS_MEMBERS_PASSWORD",
    "ca": "WINDLASS_MEMBERS_CA",
    "cert": "WINDLASS_MEMBERS_CERT",
    "key": "WINDLASS_MEMBERS_KEY",
}

URL = re.compile(r"(?P<kind>[a-z0-9+.-]+)://(?P<place>[^/?#]*)(?P<root>[^?#]*)(?P<rest>.*)", re.I)
HOST = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[\w.-]+)(?::(?P<port>\d{1,5}))?", re.I)
ROOT = re.compile(r"(/[\w.~%:+=@-]+)*/?")
PASSWORD = re.compile(r"^((?:[^:/?#]*://)?[^:/?#]*):(?!//).*@")


@dataclass(frozen=True, slots=True)
class Tls:
    """How a TLS connection is checked: the files of the CA, the own certificate and its key."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """The parsed URL `etcd://host:port,...` or `zookeeper://host:port,.../root`."""

    # Without the password.
    url: str
    kind: str
    hosts: tuple[tuple[str, int], ...]
    root: str = ""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    # None: only if there is a file for it.
    wants_tls: bool | None = None
    files: Tls = Tls()

    @property
    def tls(self) -> Tls | None:
        """How to use TLS; None for plain connections."""
        uses_tls = self.files != Tls() if self.wants_tls is None else self.wants_tls
        return self.files if uses_tls else None


def parse(url: str) -> Address:
    """Parse the URL, or raise BadMembers with what is wrong and how to write it."""
    found = URL.fullmatch(url) if isinstance(url, str) else None
    if found is None:
        raise _bad(url, "it is not a URL")
    kind = found["kind"].lower()
    if kind not in PORTS:
        raise _bad(url, f"unknown scheme {kind!r}")
    access, _, places = found["place"].rpartition("@")
    hosts = tuple(_host(url, text, PORTS[kind]) for text in places.split(","))
    root = found["root"].rstrip("/")
    if kind == "etcd" and root:
        raise _bad(url, f"etcd has no path {root!r}")
    if not ROOT.fullmatch(root) or {".", ".."} & set(root.split("/")):
        raise _bad(url, f"the path {root!r} is not valid")
    user, _, password = map(unquote, access.partition(":"))
    options = _options(url, found["rest"])
    wants_tls = options.pop("tls", None)
    return Address(
        without_password(url),
        kind,
        hosts,
        root,
        user=user or None,
        password=password or None,
        wants_tls=None if wants_tls is None else wants_tls == "true",
        files=Tls(**options),
    )


def with_environment(address: Address, environment: Mapping[str, str] = os.environ) -> Address:
    """Add what the URL does not say from $WINDLASS_MEMBERS_USER, _PASSWORD, _CA, _CERT and _KEY.

    Raises BadMembers if something is missing then, or a file cannot be read.
    """

    def given(name: str, value: str | None) -> str | None:
        return value or environment.get(VARIABLES[name]) or None

    full = replace(
        address,
        user=given("user", address.user),
        password=given("password", address.password),
        files=Tls(**{name: given(name, getattr(address.files, name)) for name in FILES}),
    )
    for one, other in (("user", "password"), ("password", "user")):
        if getattr(full, one) and not getattr(full, other):
            raise _bad(full.url, f"a {one} without a {other}; set ${VARIABLES[other]}")
    if full.tls is not None:
        _check_files(full, full.tls)
    return full


def without_password(url: str) -> str:
    """The URL as people may see it."""
    return PASSWORD.sub(r"\1:***@", url)


def _check_files(address: Address, tls: Tls) -> None:
    if (tls.cert is None) != (tls.key is None):
        one, other = ("cert", "key") if tls.key is None else ("key", "cert")
        raise _bad(address.url, f"a {one} without a {other}; set ${VARIABLES[other]}")
    for name in FILES:
        path = getattr(tls, name)
        try:
            if path is not None:
                open(path, "rb").close()
        except OSError as problem:
            raise _bad(
                address.url, f"{name} {path!r} cannot be read: {problem.strerror}"
            ) from problem


def _options(url: str, rest: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(rest.removeprefix("?"), strict_parsing=True) if rest else []
    except ValueError:
        pairs = [(rest, "")]
    for name, value in pairs:
        if name not in ("tls", *FILES):
            raise _bad(url, f"{name!r} is not understood; the options are tls, ca, cert and key")
        if name == "tls" and value not in ("true", "false"):
            raise _bad(url, f"tls={value} is neither true nor false")
    return dict(pairs)


def _host(url: str, text: str, port: int) -> tuple[str, int]:
    found = HOST.fullmatch(text)
    if found is None and "@" in url.partition("://")[2]:
        # What looks like a host may be a part of the password.
        raise _bad(url, "no valid host; write / ? # in user and password as %2F %3F %23")
    if found is None:
        raise _bad(url, f"{text!r} is not a host with a port")
    number = port if found["port"] is None else int(found["port"])
    if not 0 < number < 65_536:
        raise _bad(url, f"there is no port {number}")
    return found["host"], number


def _bad(url: object, what: str) -> BadMembers:
    shown = without_password(url) if isinstance(url, str) else url
    return BadMembers(
        f"members {shown!r}: {what}; write etcd://host:2379 or zookeeper://host:2181/path, "
        "and separate several hosts by commas"
    )
