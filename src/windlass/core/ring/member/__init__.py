"""Which workers are alive, known from etcd or ZooKeeper instead of the heartbeat in the database.

`connect(url, dead_after=...)` returns `Members`; it opens no connection before `join`.
"""

from __future__ import annotations

from windlass.core.ring.member.address import Address, parse
from windlass.core.ring.member.base import Members
from windlass.core.ring.member.coordinated import Begin, Coordinated
from windlass.errors import BadMembers

__all__ = ["Address", "Members", "connect", "parse"]


def connect(url: str, *, dead_after: int) -> Members:
    """The members behind `url`; `dead_after` is in microseconds.

    Raises BadMembers if the URL cannot be used, or its client is not installed.
    """
    address = parse(url)
    try:
        begin = _etcd() if address.kind == "etcd" else _zookeeper()
    except ImportError as error:
        raise BadMembers(
            f"members {url!r} needs {error.name}, which is not installed; "
            f"run: pip install 'windlass[{address.kind}]'"
        ) from error
    return Coordinated(address, begin, dead_after=dead_after)


def _etcd() -> Begin:
    from windlass.core.ring.member.etcd import EtcdStay

    return EtcdStay


def _zookeeper() -> Begin:
    from windlass.core.ring.member.zookeeper import ZooKeeperStay

    return ZooKeeperStay
