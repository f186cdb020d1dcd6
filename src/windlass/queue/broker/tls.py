"""TLS to a broker: its certificate and its name are always checked.

kombu checks neither for Redis, and for RabbitMQ only who signed the certificate.
"""

from __future__ import annotations

import os
import ssl
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from windlass.errors import BadQueue
from windlass.queue.model.queue import Queue

SECURE = ("amqps", "rediss")
# Options of the URL, and what the clients of RabbitMQ and Redis call them.
FILES = {"ca": "ca_certs", "cert": "certfile", "key": "keyfile"}


def secured(queue: Queue) -> tuple[str, dict[str, Any] | None]:
    """The URL without the names of files, and the terms of TLS; None if it is not used."""
    parts = urlsplit(queue.url)
    given = parse_qsl(parts.query, keep_blank_values=True)
    files = {name: value for name, value in given if name in FILES}
    if queue.scheme not in SECURE:
        if files and queue.scheme in ("amqp", "redis"):
            raise BadQueue(
                f"{queue!r}: {next(iter(files))}= is for TLS; write {queue.scheme}s:// instead"
            )
        return queue.url, None
    _check(queue, files)
    rest = urlencode([(name, value) for name, value in given if name not in FILES])
    url = urlunsplit(parts._replace(query=rest))
    named = {FILES[name]: path for name, path in files.items()}
    if queue.scheme == "amqps":
        return url, {"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": parts.hostname, **named}
    terms = {"cert_reqs": ssl.CERT_REQUIRED, "check_hostname": True, **named}
    return url, {f"ssl_{name}": value for name, value in terms.items()}


def _check(queue: Queue, files: dict[str, str]) -> None:
    if ("cert" in files) != ("key" in files):
        one, other = ("key", "cert") if "key" in files else ("cert", "key")
        raise BadQueue(f"{queue!r}: {one}= needs {other}= as well")
    for name, path in files.items():
        if not os.access(path, os.R_OK):
            raise BadQueue(f"{queue!r}: {name}={path} cannot be read; give a file in PEM form")
