"""Which workers are alive, known from etcd or ZooKeeper instead of the heartbeat in the database.

`connect(url, dead_after=...)` returns `Members`; it opens no connection before `join`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from windlass.core.ring.member.address import Address, parse, with_environment
from windlass.core.ring.member.base import Members, Stay
from windlass.errors import BadMembers

__all__ = ["Address", "Members", "connect", "parse"]


def connect(url: str, *, dead_after: int) -> Members:
    """The members behind `url`; `dead_after` is in microseconds.

    Raises BadMembers if the URL cannot be used, or its client is not installed.
    """
    address = with_environment(parse(url))
    try:
        stay = _stay_in(address.kind)
    except ImportError as error:
        raise BadMembers(
            f"members {address.url!r} needs {error.name}, which is not installed; "
            f"run: pip install 'windlass[{address.kind}]'"
        ) from error
    return Members(address, partial(stay, address, dead_after=dead_after))


def _stay_in(kind: str) -> Callable[..., Stay]:
    if kind == "etcd":
        from windlass.core.ring.member.etcd import EtcdStay

        return EtcdStay
    from windlass.core.ring.member.zookeeper import ZooKeeperStay

    return ZooKeeperStay
