"""Which of several databases a row belongs to.

A row with a key has a home: of the shards that take rows, the one whose hash with the key is the
highest. Everyone who knows the same shards names the same home, and a shard that comes or goes
changes the home of its own share of the keys and of no other.

The roster is what all shards of an app know of each other, kept in each of them. It has a number;
a change makes the next number, and a row with a key is written only by those who know the newest
one. When the shards that take rows change, the layout before is kept with the shards that may still
have rows where it put them: a key is looked for there first, until they have been moved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from windlass.errors import BadDatabase

MOST_SHARDS = 31
PLACE_BITS = 48

# The kind under which named runs find their home.
CONTROL = "windlass:control"

# The `batch` of a row that is on its way to another shard, and of its copy that has not arrived.
LEAVING = -1
COMING = -2


def place_of(number: int) -> int:
    """The place of the shard that gave out `number`; its row may be elsewhere by now."""
    return number >> PLACE_BITS


def first_number(place: int) -> int:
    """The first number that the shard at `place` gives out."""
    return max(1, place << PLACE_BITS)


def home_of(rings: Iterable[str], kind: str, key: str) -> str:
    """The shard, of those named by `rings`, to which the key of a kind belongs."""
    name = f"{kind}\0{key}".encode()
    return max(rings, key=lambda ring: blake2b(name, digest_size=8, key=ring.encode()).digest())


class Peer(msgspec.Struct, frozen=True):
    """A shard as the others know it: its place, and its URL without the password."""

    place: int
    name: str


class Past(msgspec.Struct, frozen=True):
    """Shards that once took rows, and those of them that may still have rows from then."""

    rings: tuple[str, ...]
    unmoved: tuple[str, ...]


class Roster(msgspec.Struct, frozen=True):
    """What the shards of an app know of each other. A shard is named by its ring, for ever."""

    number: int
    # All there ever were: a place is never given out again.
    peers: dict[str, Peer]
    layout: tuple[str, ...]
    past: tuple[Past, ...] = ()

    @property
    def needed(self) -> set[str]:
        """The shards that have rows, or may have."""
        return {*self.layout, *(ring for past in self.past for ring in past.unmoved)}

    @property
    def anchor(self) -> str:
        """The shard where the roster is changed first."""
        return min(self.layout, key=lambda ring: self.peers[ring].place)

    def home(self, kind: str, key: str) -> str:
        """Where a new row with this key goes."""
        return home_of(self.layout, kind, key)

    def earlier(self, kind: str, key: str) -> list[str]:
        """Where a row with this key may still be, beside its home."""
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
        """With a new shard, at a place that nobody ever had."""
        place = 1 + max(peer.place for peer in self.peers.values())
        if place >= MOST_SHARDS:
            raise BadDatabase(
                f"{name} cannot be a shard: an app has at most {MOST_SHARDS} in its life, counting "
                "those that were taken out"
            )
        peers = {**self.peers, ring: Peer(place, name)}
        return replace(self._with_layout({*self.layout, ring}), peers=peers)

    def drained(self, ring: str) -> Roster:
        """With a shard that takes no new rows."""
        if self.layout == (ring,):
            raise BadDatabase(
                f"{self.peers[ring].name} is the only shard that takes rows; add another one, or "
                "undo the draining of one"
            )
        return self._with_layout(set(self.layout) - {ring})

    def opened(self, ring: str) -> Roster:
        """With a shard that takes rows again."""
        return self._with_layout({*self.layout, ring})

    def settled(self, ring: str) -> Roster:
        """With a shard all of whose rows are where the layout of now puts them."""
        past = (
            Past(each.rings, tuple(other for other in each.unmoved if other != ring))
            for each in self.past
        )
        kept = tuple(each for each in past if each.unmoved)
        return replace(self, number=self.number + 1, past=kept)

    def lost(self, ring: str) -> Roster:
        """Without a shard that will never answer again, and whatever it has."""
        without = self.drained(ring) if ring in self.layout else self
        return replace(without.settled(ring), number=self.number + 1)

    def _with_layout(self, rings: Collection[str]) -> Roster:
        layout = tuple(sorted(rings))
        if layout == self.layout:
            return self
        past = (*self.past, Past(self.layout, self.layout))
        return replace(self, number=self.number + 1, layout=layout, past=past)


def first_roster(names: dict[str, str], *, used: str | None) -> Roster:
    """The roster of shards that come together: ring to name. One may have been `used` before."""
    if len(names) > MOST_SHARDS:
        raise BadDatabase(f"{len(names)} databases are too many: at most {MOST_SHARDS} shards")
    # Not in the order of the list: two processes may have it in different orders.
    order = sorted(names, key=lambda ring: (ring != used, ring))
    peers = {ring: Peer(place, names[ring]) for place, ring in enumerate(order)}
    past = () if used is None else (Past((used,), (used,)),)
    return Roster(1, peers, tuple(sorted(names)), past)
