"""Access tokens: make, list and revoke them, and recognise one that is shown.

A process keeps what it has read for a second, so most requests cost no statement, and a token that
was revoked elsewhere stops working within that second. All shards of an app have all tokens. A
token that any shard calls revoked is revoked; a shard that lacks one, or was away when it was
revoked, is told when the difference is seen.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

from windlass import telemetry
from windlass.clock import SECOND, Clock
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import OUTAGES
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.errors import NotPossible, Unknown, WindlassError
from windlass.operate.token import store
from windlass.operate.token.model import NewToken, TokenRow, TokenView, make, prefix_of
from windlass.value.duration import Duration, parse_duration
from windlass.value.outcome import storable
from windlass.value.twin import in_background
from windlass.view.listing import Listing
from windlass.view.role import Role

T = TypeVar("T")

FRESH_SECONDS = 1.0
USE_AGAIN_AFTER = 60 * SECOND
LONGEST_WHO = 255
# The migration that has the table of tokens.
TABLES = "0002"


class ShownToken(NamedTuple):
    """A token that a client presented, and its state."""

    row: TokenRow
    state: str


class Tokens:
    """The tokens in one database, which `prepare` gives its tables."""

    def __init__(self, database: Database, clock: Clock, prepare: Callable[[], None]) -> None:
        self._database = database
        self._clock = clock
        self._prepare = prepare
        self._lock = threading.Lock()
        self._known: dict[str, TokenRow] = {}
        self._read_at = -FRESH_SECONDS
        # When this process last wrote down the use of a token, by its public part.
        self._used: dict[str, int] = {}

    # Recognise

    def recognise(self, given: str) -> ShownToken | None:
        """The token that `given` is, also if it opens nothing any more; None if it is none."""
        prefix = prefix_of(given)
        row = None if prefix is None else self._look().get(prefix)
        if row is None or not row.is_of(given):
            return None
        return ShownToken(row, row.state(self._now()))

    def active(self, prefix: str) -> TokenRow | None:
        """The token with this public part, if it opens anything now."""
        row = self._look().get(prefix)
        return row if row is not None and row.state(self._now()) == "active" else None

    def use(self, row: TokenRow) -> None:
        """Write down that a token was used: once a minute, and without making anybody wait."""
        now = self._now()
        last = max(row.last_used_at or 0, self._used.get(row.prefix, 0))
        if now - last < USE_AGAIN_AFTER:
            return
        self._used[row.prefix] = now
        in_background(partial(self._write_use, row, now), "token")

    # See and change

    def listing(self) -> Listing[TokenView]:
        """All tokens by name, also those that were revoked or have expired."""
        self._prepare()
        parts, missing = self._read()
        merged = _together(parts)
        self._tell(_outdated(parts, merged))
        now = self._now()
        return Listing([row.view(now) for row in merged.values()], missing)

    def create(
        self, name: str, role: Role, *, expires: Duration | None = None, who: str
    ) -> NewToken:
        """Make a token. Its text is in the answer and can never be seen again."""
        length = None if expires is None else parse_duration(expires, what="expires")
        # Every shard must know which tokens are revoked before one of their names is used again.
        self.listing()
        now = self._now()
        token, row = make(name, role, who=storable(who)[:LONGEST_WHO], now=now, length=length)
        try:
            self._write(partial(store.write, row=row, now=now))
        except WindlassError:
            self._withdraw(row)
            raise
        finally:
            self._forget()
        return NewToken(token, name, role, row.view(now).prefix, row.expires_at)

    def revoke(self, name: str, *, who: str) -> TokenView:
        """Have a token open nothing any more, nor the sessions that were begun with it."""
        found = [each for each in self.listing() if each.name == name]
        if not found:
            raise Unknown(f"no token is named {name[:80]!r}")
        left = [each for each in found if each.state != "revoked"]
        if not left:
            raise NotPossible(f"token {name!r} was revoked before")
        now, by = self._now(), storable(who)[:LONGEST_WHO]
        try:
            self._write(partial(store.revoke, name=name, who=by, now=now))
        finally:
            self._forget()
        return replace(left[0], state="revoked", revoked_at=now, revoked_by=by)

    # What is known

    def _look(self) -> dict[str, TokenRow]:
        """The tokens by their public parts, as they were at most a second ago."""
        if time.monotonic() - self._read_at < FRESH_SECONDS:
            return self._known
        with self._lock:
            asked_at = time.monotonic()
            if asked_at - self._read_at < FRESH_SECONDS:
                return self._known
            self._prepare()
            parts, _ = self._read()
            known = _together(parts)
            self._used = {prefix: at for prefix, at in self._used.items() if prefix in known}
            self._known, self._read_at = known, asked_at
        outdated = _outdated(parts, known)
        if outdated:
            in_background(partial(self._tell, outdated), "token")
        return known

    def _forget(self) -> None:
        with self._lock:
            self._read_at = -FRESH_SECONDS

    def _tell(self, rows: Iterable[TokenRow]) -> None:
        """Have every shard that answers know these tokens, and which of them are revoked."""
        now = self._now()
        for row in rows:
            with suppress(NotPossible):
                self._write_where_up(partial(store.write, row=row, now=now))

    def _withdraw(self, row: TokenRow) -> None:
        """Take back a token that could not be made everywhere."""
        with suppress(WindlassError):
            self._write_where_up(partial(store.remove, prefix=row.prefix))

    def _write_use(self, row: TokenRow, now: int) -> None:
        before = now - USE_AGAIN_AFTER
        try:
            self._write_where_up(partial(store.use, prefix=row.prefix, now=now, before=before))
        except OUTAGES as problem:
            # Nobody waits for this, and it is tried again at a later use.
            why = type(problem).__name__
            telemetry.log.warning("the last use of token %s was not written: %s", row.name, why)

    # Where they are

    def _now(self) -> int:
        return self._clock.now()

    def _read(self) -> tuple[list[list[TokenRow]], tuple[str, ...]]:
        """What each database that answers has, and the names of the others."""
        return [_rows(self._database)], ()

    def _write(self, work: Callable[[Connection], None]) -> None:
        """Do `work`, which may be repeated, in every database."""
        _change(self._database, work)

    def _write_where_up(self, work: Callable[[Connection], None]) -> None:
        self._database.write(work)


class FleetTokens(Tokens):
    """The tokens of an app: every shard has all of them."""

    def __init__(self, fleet: Fleet) -> None:
        first = fleet.shards[0]
        super().__init__(first.database, first.clock, fleet.prepare)
        self._fleet = fleet

    def _now(self) -> int:
        # A test may have exchanged the shards.
        return self._fleet.shards[0].clock.now()

    def _read(self) -> tuple[list[list[TokenRow]], tuple[str, ...]]:
        found = self._fleet.ask(lambda shard: _rows(shard.database))
        return found.values, found.missing

    def _write(self, work: Callable[[Connection], None]) -> None:
        what = "the tokens are changed"
        self._fleet.everywhere(lambda shard: _change(shard.database, work), what=what)

    def _write_where_up(self, work: Callable[[Connection], None]) -> None:
        self._fleet.fan_out(lambda shard: shard.database.write(work))


def _rows(database: Database) -> list[TokenRow]:
    """The tokens of a database; tables of release 0.1.0 have none."""
    return database.read(store.listing) if database.schema.has(TABLES) else []


def _change(database: Database, work: Callable[[Connection], None]) -> None:
    database.schema.need(TABLES, "an access token")
    database.write(work)


def _together(parts: list[list[TokenRow]]) -> dict[str, TokenRow]:
    """What all databases know together, by public part and in the order of the names."""
    found: dict[str, TokenRow] = {}
    for row in sorted((row for part in parts for row in part), key=lambda row: row.name):
        known = found.setdefault(row.prefix, row)
        used = max(known.last_used_at or 0, row.last_used_at or 0) or None
        revoked = row if known.revoked_at is None else known
        found[row.prefix] = replace(
            known,
            last_used_at=used,
            revoked_at=revoked.revoked_at,
            revoked_by=revoked.revoked_by,
        )
    return found


def _outdated(parts: list[list[TokenRow]], known: dict[str, TokenRow]) -> list[TokenRow]:
    """The tokens that some database does not know, or does not know to be revoked."""
    told = [{row.prefix: row.revoked_at is not None for row in part} for part in parts]
    return [
        row
        for row in known.values()
        if any(part.get(row.prefix) is not (row.revoked_at is not None) for part in told)
    ]
