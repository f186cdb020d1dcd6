"""The address of etcd or ZooKeeper: `etcd://host:port,...` or `zookeeper://host:port,.../root`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from windlass.errors import BadMembers

PORTS = {"etcd": 2379, "zookeeper": 2181}

URL = re.compile(r"(?P<kind>[a-z0-9+.-]+)://(?P<hosts>[^/?#]*)(?P<root>[^?#]*)(?P<rest>.*)", re.I)
HOST = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[\w.-]+)(?::(?P<port>\d{1,5}))?", re.I)
ROOT = re.compile(r"(/[\w.~%:+=@-]+)*/?")


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed URL: hosts with their ports, and the root of ZooKeeper's nodes."""

    url: str
    kind: str
    hosts: tuple[tuple[str, int], ...]
    root: str = ""


def parse(url: str) -> Address:
    """Parse the URL, or raise BadMembers with what is wrong and how to write it."""
    found = URL.fullmatch(url) if isinstance(url, str) else None
    if found is None:
        raise _bad(url, "it is not a URL")
    kind = found["kind"].lower()
    if kind not in PORTS:
        raise _bad(url, f"unknown scheme {kind!r}")
    if "@" in found["hosts"]:
        raise _bad(url, "credentials are not supported")
    if found["rest"]:
        raise _bad(url, f"{found['rest']!r} is not understood")
    hosts = tuple(_host(url, text, PORTS[kind]) for text in found["hosts"].split(","))
    root = found["root"].rstrip("/")
    if kind == "etcd" and root:
        raise _bad(url, f"etcd has no path {root!r}")
    if not ROOT.fullmatch(root) or {".", ".."} & set(root.split("/")):
        raise _bad(url, f"the path {root!r} is not valid")
    return Address(url, kind, hosts, root)


def _host(url: str, text: str, port: int) -> tuple[str, int]:
    found = HOST.fullmatch(text)
    if found is None:
        raise _bad(url, f"{text!r} is not a host with a port")
    number = port if found["port"] is None else int(found["port"])
    if not 0 < number < 65_536:
        raise _bad(url, f"there is no port {number}")
    return found["host"], number


def _bad(url: object, what: str) -> BadMembers:
    return BadMembers(
        f"members {url!r}: {what}; write etcd://host:2379 or zookeeper://host:2181/path, "
        "and separate several hosts by commas"
    )
