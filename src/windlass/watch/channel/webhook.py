"""Webhooks: signed JSON by the convention of Standard Webhooks, and plain pings.

Redirects are not followed: they could lead a signed message to another receiver.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import http.client
import json
import ssl
import time
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from windlass.errors import BadInput, Undelivered
from windlass.watch.channel.base import SEND_SECONDS, Message, in_time

SECRET_PREFIX = "whsec_"
SHORTEST_SECRET = 16
ANSWER_READ = 4_096


class Webhook:
    """One receiver over HTTP."""

    scheme = "webhook"

    def __init__(self, url: str, key: bytes | None) -> None:
        self._parts = urlsplit(url)
        self._key = key

    @classmethod
    def at(cls, url: str, *, secret: str | None = None) -> Webhook:
        """The receiver at `https://host/path?secret=whsec_...`."""
        try:
            parts = urlsplit(url)
            is_valid = parts.scheme in ("http", "https") and bool(parts.hostname)
            is_valid = is_valid and (parts.port is None or parts.port > 0)
        except ValueError:
            parts, is_valid = urlsplit(""), False
        if not is_valid:
            raise BadInput("a webhook's URL is webhook+https://host/path; this one is not valid")
        if parts.username is not None:
            raise BadInput("a webhook's URL has no user and password; sign it with secret=")
        given = dict(parse_qsl(parts.query, keep_blank_values=True))
        found = given.pop("secret", None)
        if found is not None and secret is not None:
            raise BadInput("a webhook's secret is given twice; leave it out of the URL")
        path = quote(parts.path, safe="/%:@!$&'()*+,;=~")
        plain = urlunsplit(parts._replace(path=path, query=urlencode(given), fragment=""))
        secret = found if secret is None else secret
        return cls(plain, None if secret is None else _key(secret))

    def send(self, message: Message) -> None:
        body = json.dumps(
            {
                "type": "alert.resolved" if message.is_resolved else "alert.raised",
                "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "data": {"title": message.title, "text": message.text, **message.facts},
            },
            ensure_ascii=False,
        ).encode()
        headers = {"Content-Type": "application/json", "webhook-id": message.id}
        stamp = str(int(time.time()))
        headers["webhook-timestamp"] = stamp
        if self._key is not None:
            signed = f"{message.id}.{stamp}.".encode() + body
            digest = hmac.new(self._key, signed, hashlib.sha256).digest()
            headers["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
        self._request("POST", body, headers)

    def ping(self) -> None:
        self._request("GET", None, {})

    def _request(self, method: str, body: bytes | None, headers: dict[str, str]) -> None:
        where = self._parts.hostname or ""
        in_time(lambda: self._exchange(where, method, body, headers), where=where)

    def _exchange(
        self, where: str, method: str, body: bytes | None, headers: dict[str, str]
    ) -> None:
        path = urlunsplit(("", "", self._parts.path or "/", self._parts.query, ""))
        headers["User-Agent"] = "windlass"
        connection = self._connect(where)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            answer.read(ANSWER_READ)
        except OSError as problem:
            reason = problem.strerror or str(problem) or type(problem).__name__
            raise Undelivered(f"{where}: {reason[:200]}") from None
        finally:
            connection.close()
        if 300 <= answer.status < 400:
            raise Undelivered(f"{where} redirects ({answer.status}); give the URL that it leads to")
        if not 200 <= answer.status < 300:
            raise Undelivered(f"{where} answered {answer.status}")

    def _connect(self, host: str) -> http.client.HTTPConnection:
        port = self._parts.port
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=SEND_SECONDS)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, timeout=SEND_SECONDS, context=context)


def _key(secret: str) -> bytes:
    """The bytes of a secret: `whsec_` and base64, or any text of 16 characters or more."""
    if secret.startswith(SECRET_PREFIX):
        try:
            key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
        except binascii.Error:
            raise BadInput("a webhook's secret is whsec_ and base64; this one is not") from None
    else:
        key = secret.encode()
    if len(key) < SHORTEST_SECRET:
        raise BadInput(f"a webhook's secret has at least {SHORTEST_SECRET} bytes")
    return key
