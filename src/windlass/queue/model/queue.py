"""`Queue`: the address of a queue at a broker. A value: making one connects to nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any
from urllib.parse import SplitResult, urlsplit
from weakref import WeakValueDictionary

from windlass.errors import BadQueue

# What is tested; kombu has more, which are allowed.
TESTED = ("amqp", "amqps", "redis", "rediss")
PORTS = {"amqp": 5672, "pyamqp": 5672, "amqps": 5671, "redis": 6379, "rediss": 6379}
KAFKA = ("kafka", "confluentkafka")
LONGEST_NAME = 200

# Queues that were made in this process: a worker finds the queue of a message that another process
# wrote, because it imports the same modules.
MADE: WeakValueDictionary[int, Queue] = WeakValueDictionary()

# The schemes of brokers that users have registered, and whether those can keep an order.
REGISTERED: dict[str, bool] = {}

Settings = Mapping[str, Any]


@dataclass(frozen=True, repr=False)
class Queue:
    """A queue of a broker: `Queue("amqp://user:password@host/vhost", "product")`.

    With `declare` Windlass makes sure that there is such a durable queue; without, it must be
    there. `arguments` are those of the declaration, such as `{"x-max-length": 10_000}`, `options`
    are transport options of kombu.
    """

    url: str
    name: str
    declare: bool = field(default=True, compare=False)
    arguments: Settings = field(default_factory=dict, compare=False)
    options: Settings = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        _check_url(self.url)
        _check_name(self.name)
        for name in ("arguments", "options"):
            given = getattr(self, name)
            if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
                raise BadQueue(
                    f"queue {self.name!r}: {name} is not a mapping with names as keys; "
                    f'write {name}={{"name": value}}'
                )
            object.__setattr__(self, name, MappingProxyType(dict(given)))
        if not isinstance(self.declare, bool):
            raise BadQueue(f"queue {self.name!r}: declare={self.declare!r} is not True or False")
        # By itself, not by what it equals: another one that is equal may go before this one.
        MADE[id(self)] = self

    @cached_property
    def scheme(self) -> str:
        """How the broker is spoken to: amqp, redis, or another transport of kombu."""
        return urlsplit(self.url).scheme.lower()

    @cached_property
    def address(self) -> str:
        """Where its broker is, without user, password and settings: for people and for rows."""
        parts = urlsplit(self.url)
        port = parts.port or PORTS.get(self.scheme)
        host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
        where = f"{host or ''}:{port}" if port else host or ""
        return f"{self.scheme}://{where}{parts.path.rstrip('/')}"

    @property
    def carried_by(self) -> str:
        """The face that carries tasks by it, for `via=`."""
        return "queue"

    @property
    def keeps_order(self) -> bool:
        """Whether one receiver can have the queue to itself."""
        return REGISTERED.get(self.scheme, self.scheme in (*TESTED, "pyamqp"))

    @property
    def is_tested(self) -> bool:
        """Whether Windlass is tested with brokers of this kind."""
        return is_tested(self.url)

    def __repr__(self) -> str:
        return f"<queue {self.name!r} at {self.address}>"


def is_tested(address: str) -> bool:
    """Whether Windlass is tested with the brokers at such an address."""
    return address.partition(":")[0].lower() in TESTED


def sent_kind(name: str) -> str:
    """The name under which statistics count what is sent to a queue."""
    return f"windlass:outbox:{name}"[:100]


def queues_made() -> list[Queue]:
    """All queues of this process, in the order of their names."""
    return sorted(set(MADE.values()), key=lambda queue: (queue.name, queue.address))


def _check_url(url: object) -> None:
    if not isinstance(url, str):
        raise BadQueue(f"a queue's URL must be text, not {type(url).__name__}; {_EXAMPLE}")
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        raise BadQueue(
            f"the URL of a queue has a port or host that cannot be read; {_EXAMPLE}"
        ) from None
    if ";" in url:
        # Everything behind it would count as a part of the path, with its password.
        raise BadQueue(f"{_shown(parts)}: give the URL of one broker, without ';'; {_EXAMPLE}")
    if "@" in parts.path + parts.query + parts.fragment:
        # Such as the rest of "amqp://user:12/34@host", whose password is 12/34.
        raise BadQueue(
            f"the URL of a queue has an '@' behind the host; write %40 for an '@', and %2F, %3F, "
            f"%23 for '/', '?', '#' in a password; {_EXAMPLE}"
        )
    if not parts.scheme or "://" not in url:
        raise BadQueue(f"the URL of a queue has no scheme; {_EXAMPLE}")
    if not has_port:
        raise BadQueue(f"{_shown(parts)}: port 0 cannot be used; {_EXAMPLE}")
    if parts.scheme.lower() in KAFKA and parts.scheme.lower() not in REGISTERED:
        raise BadQueue(
            f"{_shown(parts)}: Windlass has no broker for Kafka; register one of your own first, "
            'by windlass.queue.register("kafka", make), or consume it with its own client and '
            "enqueue tasks with key= set to topic, partition and offset"
        )
    if parts.scheme.lower() in PORTS and not parts.hostname:
        raise BadQueue(f"{_shown(parts)}: the host is missing; {_EXAMPLE}")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise BadQueue(f"{name!r} is not the name of a queue; give a text of at least one letter")
    size = len(name.encode("utf-8", "replace"))
    if size > LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise BadQueue(
            f"{name[:LONGEST_NAME]!r} cannot be the name of a queue; use up to {LONGEST_NAME} "
            "bytes of printable characters, without spaces at its ends"
        )
    if re.match(r"amq\.", name):
        raise BadQueue(f"{name!r}: names that begin with 'amq.' belong to the broker; use another")


def _shown(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.hostname or ''}"


_EXAMPLE = 'write "amqp://user:password@host:5672/vhost" or "redis://host:6379/0"'
