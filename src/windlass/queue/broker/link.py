"""One connection by kombu: its time-outs, and its errors in the words of Windlass."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from urllib.parse import unquote, urlsplit

from windlass.errors import BadQueue, BrokerRefused, BrokerUnavailable
from windlass.queue.broker.tls import secured
from windlass.queue.model.queue import Queue

CONNECT_SECONDS = 5
# A broker that is silent for so long in the middle of an answer is gone.
ANSWER_SECONDS = 15
HEARTBEAT_SECONDS = 20

# Answers of AMQP that stay the same until an operator changes something.
# 501 and 502 are about a message, such as headers that are larger than a frame.
REFUSALS = {403, 404, 405, 406, 501, 502, 530, 541}


class BrokerLink:
    """A connection that opens on first use and after a loss. `epoch` counts its connections."""

    def __init__(self, queue: Queue, **options: Any) -> None:
        self.address = queue.address
        self._url, self._tls = secured(queue)
        self._user = unquote(urlsplit(queue.url).username or "")
        self._options = {**options, **queue.options}
        self._connection: Any = None
        self.epoch = 0

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    @contextmanager
    def speaking(self) -> Iterator[Any]:
        """The connection; an error closes it, and is raised as BrokerUnavailable or -Refused."""
        if self._connection is None:
            self._connect()
        connection = self._connection
        known = (
            *connection.connection_errors,
            *connection.channel_errors,
            *(OSError, _kombu_error(), _loss()),
        )
        try:
            yield connection
        except BrokerUnavailable:
            self.drop()
            raise
        except known as problem:
            self.drop()
            raise self._translated(problem) from None

    def beat(self) -> None:
        """Read what has arrived, and send a heartbeat if it is time."""
        if self._connection is None:
            return
        with self.speaking() as connection:
            if connection.transport.implements.heartbeats:
                self.read(0)
                connection.heartbeat_check()

    def read(self, wait_seconds: float) -> bool:
        """Handle what arrives next; whether something did. Only while `speaking`."""
        try:
            self._connection.drain_events(timeout=wait_seconds)
        except TimeoutError:
            return False
        return True

    def drop(self) -> None:
        """Close the connection without a word to the broker."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.collect(socket_timeout=1)

    def close(self) -> None:
        """Close the connection in good order."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.release()

    def _connect(self) -> None:
        kombu: Any = import_module("kombu")
        try:
            connection = kombu.Connection(
                self._url,
                connect_timeout=CONNECT_SECONDS,
                heartbeat=HEARTBEAT_SECONDS,
                transport_options=self._options,
                **({} if self._tls is None else {"ssl": self._tls}),
            )
            known = (*connection.connection_errors, *connection.channel_errors, OSError, _loss())
        except (KeyError, ImportError) as problem:
            scheme = urlsplit(self._url).scheme
            raise BadQueue(
                f"{self.address}: kombu has no transport {scheme!r}, or its client is not "
                f"installed ({problem}); use amqp:// or redis://"
            ) from None
        try:
            connection.ensure_connection(max_retries=0)
            connection.default_channel  # noqa: B018 - Redis only speaks when it opens a channel
        except (*known, _kombu_error()) as problem:
            with contextlib.suppress(Exception):
                connection.collect(socket_timeout=1)
            cause = problem.__cause__ or problem
            raise self._translated(cause, is_login=True) from None
        self._connection = connection
        self.epoch += 1

    def _translated(self, problem: BaseException, *, is_login: bool = False) -> BrokerUnavailable:
        said = " ".join(str(problem).split())[:300].rstrip(". ") or type(problem).__name__
        name = type(problem).__name__
        code = getattr(problem, "reply_code", None) or getattr(problem, "code", None)
        if (is_login and code == 403) or name in (
            "AuthenticationError",
            "AuthenticationWrongNumberOfArgsError",
        ):
            who = f"user {self._user!r}" if self._user else "a client without a user"
            return BrokerRefused(
                self.address, f"it does not let {who} in; check user and password in the URL"
            )
        if "CERTIFICATE_VERIFY_FAILED" in said:
            return BrokerRefused(
                self.address,
                f"its certificate is not trusted ({said}); name its CA by ?ca=FILE in the URL",
            )
        if code == 403 and "exclusive" in said:
            return BrokerUnavailable(
                self.address, f"another consumer still has the queue to itself ({said})"
            )
        if code in REFUSALS or name == "NoPermissionError":
            return BrokerRefused(self.address, said)
        return BrokerUnavailable(self.address, said)


class Timer:
    """Whether that many seconds have passed since the last time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0

    def has_rung(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True


def _kombu_error() -> type[Exception]:
    error: type[Exception] = import_module("kombu.exceptions").KombuError
    return error


def _loss() -> type[Exception]:
    """What py-amqp raises when it uses a connection that another error has closed."""
    return AttributeError
