"""Who is logged in: secrets, signed sessions, and a limit for wrong secrets.

A session is a signed cookie, so several processes with the same secret share it. Its key is derived
from the secret: a new secret ends all sessions. Without a secret everybody on this machine is an
operator, and the session only has the token that a foreign page cannot know.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections import deque
from collections.abc import Callable
from enum import StrEnum

import msgspec

COOKIE = "windlass_session"
SESSION_SECONDS = 12 * 3_600
LONGEST_COOKIE = 2_000
LONGEST_NAME = 100
MOST_ENDED = 10_000

WRONG_A_MINUTE = 5
WRONG_A_MINUTE_BY_ALL = 60
MOST_ADDRESSES = 10_000


class Role(StrEnum):
    """What a person may do."""

    OPERATOR = "operator"
    VIEWER = "viewer"


class Session(msgspec.Struct, frozen=True):
    """A person who is logged in; `name` is the name that the person gave."""

    id: str
    name: str
    role: Role
    expires_at: float


class Sessions:
    """Begins sessions, recognises them and ends them."""

    def __init__(self, secret: str | None, viewer_secret: str | None) -> None:
        self._secrets = [(secret, Role.OPERATOR), (viewer_secret, Role.VIEWER)]
        root = "\0".join(given or "" for given, _ in self._secrets).encode()
        self.is_open = secret is None
        if self.is_open:
            root = secrets.token_bytes(32)
        self._key = hmac.digest(root, b"windlass session", "sha256")
        self._ended: deque[str] = deque(maxlen=MOST_ENDED)

    def role_of(self, given: str) -> Role | None:
        """The role that a secret gives; the comparison takes the same time for any secret."""
        found: Role | None = None
        for secret, role in self._secrets:
            if secret is not None and hmac.compare_digest(_digest(given), _digest(secret)):
                found = found or role
        return found

    def begin(self, name: str, role: Role) -> tuple[Session, str]:
        """A new session, and its cookie."""
        session = Session(secrets.token_urlsafe(16), name, role, time.time() + SESSION_SECONDS)
        body = urlsafe_b64encode(msgspec.json.encode(session)).decode().rstrip("=")
        return session, f"{body}.{self._sign('session', body)}"

    def read(self, cookie: str) -> Session | None:
        """The session of a cookie, if we gave it out and it has not ended."""
        body, _, signature = cookie.partition(".")
        if len(cookie) > LONGEST_COOKIE or not _same(signature, self._sign("session", body)):
            return None
        try:
            session = msgspec.json.decode(urlsafe_b64decode(f"{body}=="), type=Session)
        except (msgspec.MsgspecError, NotBase64, ValueError):
            return None
        is_over = session.expires_at < time.time() or session.id in self._ended
        return None if is_over else session

    def end(self, session: Session) -> None:
        """Take a session for ended, in this process and as long as it would have lasted."""
        self._ended.append(session.id)

    def token_of(self, session: Session) -> str:
        """What a request that changes something must carry beside the cookie."""
        return self._sign("token", session.id)

    def is_token_of(self, session: Session, given: str) -> bool:
        """Whether `given` is that."""
        return _same(given, self.token_of(session))

    def _sign(self, what: str, text: str) -> str:
        return hmac.digest(self._key, f"{what}:{text}".encode(), "sha256").hex()


class Guesses:
    """How many wrong secrets came lately, from each address and in all."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._wrong: dict[str, deque[float]] = {}
        self._all: deque[float] = deque(maxlen=WRONG_A_MINUTE_BY_ALL)

    def wait_seconds(self, address: str) -> float:
        """How long `address` must wait before it may try a secret; 0 if it may now."""
        with self._lock:
            mine = self._wrong.get(address, deque())
            return max(self._wait(mine, WRONG_A_MINUTE), self._wait(self._all, self._all.maxlen))

    def was_wrong(self, address: str) -> None:
        """Note a wrong secret."""
        with self._lock:
            now = self._clock()
            if len(self._wrong) >= MOST_ADDRESSES:
                self._wrong = {
                    known: times for known, times in self._wrong.items() if times[-1] > now - 60
                }
            if len(self._wrong) < MOST_ADDRESSES:
                self._wrong.setdefault(address, deque(maxlen=WRONG_A_MINUTE)).append(now)
            self._all.append(now)

    def _wait(self, times: deque[float], most: int | None) -> float:
        if most is None or len(times) < most:
            return 0.0
        return max(0.0, times[0] + 60 - self._clock())


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def _same(given: str, right: str) -> bool:
    return hmac.compare_digest(_digest(given), _digest(right))
