"""What opens the console: secrets, a link that works once, and the sessions that they begin.

There is no way in without a credential. A secret is also the bearer token of programs. A session is
a signed cookie, so several processes with the same secret share it. Each role has its own key,
which a slow function derives from the secret of that role alone: the cookie of a viewer has nothing
of the admin's secret in it, and a stolen cookie is of little use to guess its secret.

An access token begins sessions, too. Their key is made of the console's own key and of the hash of
the token. Who reads the database lacks the one and who has the token lacks the other, so neither
can make a session. It ends with the token: without an active token there is no key.

Right credentials are compared first and never refused. Only wrong ones are counted, and their
senders are told to wait, longer each time: see `Guesses`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from windlass import telemetry
from windlass.errors import BadInput
from windlass.operate.token.model import TokenRow
from windlass.operate.token.operate import Tokens
from windlass.view.role import Role
from windlass.web.link import Link

# A shorter secret is for a console that only this machine can reach.
SHORTEST_SECRET = 16
LONGEST_SECRET = 1_000

SESSION_SECONDS = 12 * 3_600
LONGEST_COOKIE = 2_000
MOST_ENDED = 10_000

WRONG_AT_ONCE = 5
LONGEST_WAIT_SECONDS = 300.0
FORGET_SECONDS = 600.0
MOST_TALLIES = 10_000


# What a client was let in by.
Means = Literal["secret", "link", "token", "proxy"]


class Session(msgspec.Struct, frozen=True):
    """A person who is logged in; `name` is the name that the person gave."""

    id: str
    name: str
    role: Role
    expires_at: float
    by: Means = "secret"
    # The public part of the token that it was begun with.
    token: str | None = None


class Credentials:
    """What a request may show to get in, and the role that it gives: secrets, or a link.

    With neither, only a trusted proxy and access tokens let people in.
    """

    def __init__(
        self, secret: str | None = None, viewer_secret: str | None = None, link: Link | None = None
    ) -> None:
        assert secret is None or link is None
        self._secrets = [
            (given, role)
            for given, role in ((secret, Role.ADMIN), (viewer_secret, Role.VIEWER))
            if given is not None
        ]
        self._link = link
        self.has_secret = link is None
        # What is easy to guess, or was made for one person, is for this machine only.
        self.is_local = any(len(given) < SHORTEST_SECRET for given, _ in self._secrets) or (
            link is not None
        )

    def role_of(self, given: str) -> Role | None:
        """The role that a secret gives; the comparison takes the same time for any secret."""
        found: Role | None = None
        for secret, role in self._secrets:
            if same(given, secret):
                found = found or role
        return found

    def trade(self, token: str) -> Role | None:
        """The role that the token of a link gives, the first time that it is shown."""
        link = self._link
        is_right = link is not None and same(token, link.token) and link.use()
        return Role.ADMIN if is_right else None

    def session_keys(self) -> dict[Role, bytes]:
        """The key that signs the sessions of each role."""
        if self._link is not None:
            return {Role.ADMIN: self._link.session_key}
        return {role: _slow_key(secret, role) for secret, role in self._secrets}


def check_secrets(
    secret: str | None, viewer_secret: str | None = None, *, is_local: bool = False
) -> None:
    """Refuse secrets that protect nothing; short ones are for a console of this machine only."""
    shortest = 1 if is_local else SHORTEST_SECRET
    for name, given in (("secret", secret), ("viewer_secret", viewer_secret)):
        if given is None:
            continue
        if not given.strip() or len(given) > LONGEST_SECRET:
            raise BadInput(
                f"the {name} is empty or too long; give {shortest} to {LONGEST_SECRET} characters"
            )
        if len(given) < shortest:
            raise BadInput(
                f"the {name} has {len(given)} characters and is easy to guess; give at least "
                f"{SHORTEST_SECRET}, as `openssl rand -base64 32` prints them"
            )
    if viewer_secret is not None and secret is None:
        raise BadInput("a viewer_secret without a secret protects nothing; give both")
    if secret is not None and secret == viewer_secret:
        raise BadInput("secret and viewer_secret are the same; give two")


class Sessions:
    """Begins sessions, recognises them and ends them."""

    def __init__(self, keys: dict[Role, bytes], tokens: Tokens | None = None) -> None:
        self._keys = keys
        self._tokens = tokens
        # Without a secret or a link, sessions last as long as the process.
        first = next(iter(keys.values()), None) or secrets.token_bytes(32)
        self._own_key = hmac.digest(first, b"console", "sha256")
        self._ended: deque[str] = deque(maxlen=MOST_ENDED)

    def begin(
        self, name: str, role: Role, *, by: Means = "secret", token: TokenRow | None = None
    ) -> tuple[Session, str]:
        """A new session, and its cookie."""
        number, until = secrets.token_urlsafe(16), time.time() + SESSION_SECONDS
        prefix = None if token is None else token.prefix
        session = Session(number, name, role, until, by, prefix)
        body = urlsafe_b64encode(msgspec.json.encode(session)).decode().rstrip("=")
        return session, f"{body}.{self._sign('session', body, session)}"

    def of_proxy(self, name: str, role: Role) -> Session:
        """What stands for a session in a request that a trusted proxy sends. It has no cookie."""
        return Session(f"proxy {name}", name, role, time.time() + SESSION_SECONDS, "proxy")

    def claimed(self, cookie: str) -> Session | None:
        """The session that a cookie claims to be; its signature is not checked."""
        if len(cookie) > LONGEST_COOKIE:
            return None
        body = cookie.partition(".")[0]
        try:
            return msgspec.json.decode(urlsafe_b64decode(f"{body}=="), type=Session)
        except (msgspec.MsgspecError, NotBase64, ValueError):
            return None

    def read(self, cookie: str) -> Session | None:
        """The session of a cookie, if we gave it out and it has not ended."""
        session = self.claimed(cookie)
        # Until the signature is checked, role and token are only claims: they name the key.
        if session is None or session.by == "proxy":
            return None
        body, _, signature = cookie.partition(".")
        right = self._sign("session", body, session)
        if right is None or not same(signature, right):
            return None
        is_over = session.expires_at < time.time() or session.id in self._ended
        return None if is_over else session

    def end(self, session: Session) -> None:
        """Take a session for ended, in this process and as long as it would have lasted."""
        self._ended.append(session.id)

    def token_of(self, session: Session) -> str | None:
        """What a request that changes something must carry beside the cookie."""
        return self._sign("token", session.id, session)

    def is_token_of(self, session: Session, given: str) -> bool:
        """Whether `given` is that."""
        right = self.token_of(session)
        return right is not None and same(given, right)

    def _sign(self, what: str, text: str, session: Session) -> str | None:
        key = self._key(session)
        return None if key is None else hmac.digest(key, f"{what}:{text}".encode(), "sha256").hex()

    def _key(self, session: Session) -> bytes | None:
        """The key of a session; None if nobody can have such a session now."""
        if session.by == "proxy":
            return self._own_key
        if session.token is None:
            return self._keys.get(session.role)
        row = None if self._tokens is None else self._tokens.active(session.token)
        if row is None or row.role is not session.role:
            return None
        return hmac.digest(self._own_key, row.hash.encode(), "sha256")


class GuessCount(NamedTuple):
    """How many wrong credentials were counted, and when the last one came."""

    wrong: int
    last_at: float


class Guesses:
    """Counts wrong credentials: each by itself, and how many different ones an address sends.

    A program that repeats an outdated secret therefore makes only itself wait. Who sends many
    different secrets is guessing, and the whole address is told to wait for its next wrong one.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tallies: OrderedDict[tuple[str, int | None], GuessCount] = OrderedDict()

    def was_wrong(self, address: str, given: str) -> float:
        """Count a wrong credential; for how many seconds its sender should wait."""
        with self._lock:
            # The hash of a text is different in each process: nothing is kept to find it by.
            same_again = self._count((address, hash(given)))
            is_new = same_again == 1
            different = self._count((address, None)) if is_new else 1
        tried = max(same_again, different)
        if tried > WRONG_AT_ONCE and (tried - WRONG_AT_ONCE).bit_count() == 1:
            telemetry.log.warning("%d wrong secrets came from %s", tried, address)
        if tried <= WRONG_AT_ONCE:
            return 0.0
        return min(LONGEST_WAIT_SECONDS, 2.0 ** min(tried - WRONG_AT_ONCE - 1, 30))

    def _count(self, key: tuple[str, int | None]) -> int:
        now = self._clock()
        before = self._tallies.pop(key, GuessCount(0, now))
        is_forgotten = now - before.last_at > FORGET_SECONDS
        self._tallies[key] = tally = GuessCount(1 if is_forgotten else before.wrong + 1, now)
        if len(self._tallies) > MOST_TALLIES:
            self._tallies.popitem(last=False)
        return tally.wrong


def same(given: str, right: str) -> bool:
    """Whether two texts are the same, in the same time for any `given`."""
    return hmac.compare_digest(_digest(given), _digest(right))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


@lru_cache(maxsize=16)
def _slow_key(secret: str, role: Role) -> bytes:
    """A key that costs 32 MiB and a quarter of a second to derive; all processes get the same."""
    return hashlib.scrypt(
        secret.encode(errors="surrogatepass"),
        salt=f"windlass session {role}".encode(),
        n=2**15,
        r=8,
        p=3,
        maxmem=64 * 1024 * 1024,
        dklen=32,
    )
