"""Access tokens: how one is made and recognised, and what operators see of it.

A token is `windlass_`, a public part that it is known by, and 256 random bits. Nobody can guess
those, so a fast hash keeps them as well as a slow one would, and each request is checked in
microseconds. The hash is keyed with a salt that leaves the database as little as the hash does: who
has a token does not know its hash, which is a part of the key of its sessions.
"""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import Literal

from windlass.errors import BadInput
from windlass.view.field import Moment
from windlass.view.role import Role

BEGIN = "windlass_"
TOKEN = re.compile(rf"{BEGIN}([0-9a-f]{{12}})_[A-Za-z0-9_-]{{43}}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")

State = Literal["active", "expired", "revoked"]


@dataclass(frozen=True)
class TokenView:
    """A token, as operators see it: never the token itself, only how it begins."""

    name: str
    role: Role
    prefix: str
    state: State
    created_at: Moment
    created_by: str
    expires_at: Moment | None
    # Exact to a minute.
    last_used_at: Moment | None
    revoked_at: Moment | None
    revoked_by: str | None


@dataclass(frozen=True)
class NewToken:
    """A token that was just made. Nobody can see `token` again."""

    token: str = field(repr=False)
    name: str
    role: Role
    prefix: str
    expires_at: Moment | None


@dataclass(frozen=True)
class TokenRow:
    """A token, as it is stored."""

    name: str
    prefix: str
    role: Role
    salt: str = field(repr=False)
    hash: str = field(repr=False)
    created_at: int
    created_by: str
    expires_at: int | None = None
    last_used_at: int | None = None
    revoked_at: int | None = None
    revoked_by: str | None = None

    def state(self, now: int) -> State:
        """Whether it opens anything now."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"

    def is_of(self, given: str) -> bool:
        """Whether `given` is this token, in the same time for any `given`."""
        return hmac.compare_digest(_hash(self.salt, given), self.hash)

    def view(self, now: int) -> TokenView:
        """What operators see of it."""
        return TokenView(
            name=self.name,
            role=self.role,
            prefix=f"{BEGIN}{self.prefix}",
            state=self.state(now),
            created_at=self.created_at,
            created_by=self.created_by,
            expires_at=self.expires_at,
            last_used_at=self.last_used_at,
            revoked_at=self.revoked_at,
            revoked_by=self.revoked_by,
        )


def make(name: str, role: Role, *, who: str, now: int, length: int | None) -> tuple[str, TokenRow]:
    """A new token that expires after `length` microseconds, or never, and its row."""
    check_name(name)
    prefix, salt = secrets.token_hex(6), secrets.token_hex(16)
    token = f"{BEGIN}{prefix}_{secrets.token_urlsafe(32)}"
    expires_at = None if length is None else now + length
    row = TokenRow(
        name=name,
        prefix=prefix,
        role=role,
        salt=salt,
        hash=_hash(salt, token),
        created_at=now,
        created_by=who,
        expires_at=expires_at,
    )
    return token, row


def check_name(name: str) -> None:
    """Refuse a name that cannot be one."""
    if not NAME.fullmatch(name):
        raise BadInput(
            f"{name[:80]!r} cannot name a token; give 1 to 64 letters, digits and . _ @ - that "
            "begin with a letter or a digit"
        )


def prefix_of(given: str) -> str | None:
    """The public part of what may be a token; None if it cannot be one."""
    found = TOKEN.fullmatch(given)
    return None if found is None else found[1]


def _hash(salt: str, token: str) -> str:
    return hmac.digest(salt.encode(), token.encode(errors="surrogatepass"), "sha256").hex()
