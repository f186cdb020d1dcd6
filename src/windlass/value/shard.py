"""Which shard a row belongs to.

A row with a key has a home: among the shards that take rows, the shard whose hash with the key is
the highest. All processes that know the same shards agree on the home. A shard that joins or leaves
changes the home of its own share of the keys only.

Each shard stores the roster: what the shards of an app know of each other. Every change gives it
the next number, and only processes that know the newest roster write rows with keys. When the
layout changes, the roster keeps the old layout and the shards whose rows may still be where it put
them. A key is looked up there first, until those rows have been moved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from windlass.errors import BadDatabase

MOST_SHARDS = 31
PLACE_BITS = 48

# The kind by which control runs find their home.
CONTROL = "windlass:control"

# The `batch` of a row that is moving to another shard, and of its unfinished copy there.
LEAVING = -1
COMING = -2


def place_of(number: int) -> int:
    """The place of the shard that issued `number`; the row may have moved since."""
    return number >> PLACE_BITS


def first_number(place: int) -> int:
    """The first number that the shard at `place` issues."""
    return max(1, place << PLACE_BITS)


def numbers_of(place: int) -> range:
    """All numbers that the shard at `place` may issue."""
    return range(place << PLACE_BITS, (place + 1) << PLACE_BITS)


def home_of(rings: Iterable[str], kind: str, key: str) -> str:
    """The shard among `rings` to which the key of a kind belongs."""
    name = f"{kind}\0{key}".encode()
    return max(rings, key=lambda ring: blake2b(name, digest_size=8, key=ring.encode()).digest())


class Peer(msgspec.Struct, frozen=True):
    """A shard as the others know it: its place, and its URL without the password."""

    place: int
    name: str


class Past(msgspec.Struct, frozen=True):
    """An earlier layout, and its shards that may still have rows from then."""

    rings: tuple[str, ...]
    unmoved: tuple[str, ...]


class Roster(msgspec.Struct, frozen=True):
    """What the shards of an app know of each other. The ring of a shard is its permanent name."""

    number: int
    # Removed shards stay here: a place is never used again.
    peers: dict[str, Peer]
    layout: tuple[str, ...]
    past: tuple[Past, ...] = ()

    @property
    def needed(self) -> set[str]:
        """The shards that may have rows."""
        return {*self.layout, *(ring for past in self.past for ring in past.unmoved)}

    @property
    def anchor(self) -> str:
        """The shard where the roster is changed first."""
        return min(self.layout, key=lambda ring: self.peers[ring].place)

    def home(self, kind: str, key: str) -> str:
        """Where a new row with this key goes."""
        return home_of(self.layout, kind, key)

    def earlier(self, kind: str, key: str) -> list[str]:
        """The shards besides its home where a row with this key may still be."""
        if not self.past:
            return []
        home = self.home(kind, key)
        before = (
            ring
            for past in self.past
            if (ring := home_of(past.rings, kind, key)) in past.unmoved and ring != home
        )
        return list(dict.fromkeys(before))

    def is_draining(self, ring: str) -> bool:
        """Whether the shard takes no new rows."""
        return ring not in self.layout

    def joined(self, ring: str, name: str) -> Roster:
        """With a new shard, at a place that no shard ever had."""
        place = 1 + max(peer.place for peer in self.peers.values())
        if place >= MOST_SHARDS:
            raise BadDatabase(
                f"{name} cannot be a shard: an app can have at most {MOST_SHARDS}, and removed "
                "shards count too"
            )
        peers = {**self.peers, ring: Peer(place, name)}
        return replace(self._with_layout({*self.layout, ring}), peers=peers)

    def drained(self, ring: str) -> Roster:
        """With a shard that takes no new rows."""
        if self.layout == (ring,):
            raise BadDatabase(
                f"{self.peers[ring].name} is the only shard that takes rows; add another shard, or "
                "undo the draining of one"
            )
        return self._with_layout(set(self.layout) - {ring})

    def opened(self, ring: str) -> Roster:
        """With a shard that takes rows again."""
        return self._with_layout({*self.layout, ring})

    def settled(self, ring: str) -> Roster:
        """With a shard whose rows are all where the current layout puts them."""
        past = (
            Past(each.rings, tuple(other for other in each.unmoved if other != ring))
            for each in self.past
        )
        kept = tuple(each for each in past if each.unmoved)
        return replace(self, number=self.number + 1, past=kept)

    def lost(self, ring: str) -> Roster:
        """Without a shard that will never answer again, and without its rows."""
        without = self.drained(ring) if ring in self.layout else self
        return replace(without.settled(ring), number=self.number + 1)

    def _with_layout(self, rings: Collection[str]) -> Roster:
        layout = tuple(sorted(rings))
        if layout == self.layout:
            return self
        past = (*self.past, Past(self.layout, self.layout))
        return replace(self, number=self.number + 1, layout=layout, past=past)


def first_roster(names: dict[str, str], *, used: str | None) -> Roster:
    """The first roster of these shards: ring to name. One of them may have been `used` alone."""
    if len(names) > MOST_SHARDS:
        raise BadDatabase(f"{len(names)} databases are too many: at most {MOST_SHARDS} shards")
    # Sorted, because two processes may list them in different orders.
    order = sorted(names, key=lambda ring: (ring != used, ring))
    peers = {ring: Peer(place, names[ring]) for place, ring in enumerate(order)}
    past = () if used is None else (Past((used,), (used,)),)
    return Roster(1, peers, tuple(sorted(names)), past)
