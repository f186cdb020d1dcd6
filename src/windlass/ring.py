"""The ring: which worker owns which buckets. Each worker computes it from the same list.

A token is an unsigned 32-bit number. Sorted tokens make a ring, and the worker with token t owns
the arc [previous, t). Hashed tokens would make very uneven arcs, so a hash only gives each worker
its place in the order; the tokens are spread evenly. A bucket belongs to the worker that owns its
last point, so each worker has one contiguous run of buckets.

Order and duplicates in the arguments do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TypeVar
from zlib import crc32

from windlass.errors import BadInput
from windlass.value.bucket import BUCKETS

END = 2**32

Member = TypeVar("Member", bound=int | str)


def arcs(tokens: Iterable[int]) -> dict[int, list[tuple[int, int]]]:
    """The part of the ring that each token owns, as [begin, end) with `end` up to 2**32.

    The smallest token also owns the wrap-around: first from the largest token to the end, then from
    0. A single token owns everything.
    """
    ordered = sorted({_checked_token(token) for token in tokens})
    if len(ordered) <= 1:
        return {token: [(0, END)] for token in ordered}
    owned = {token: [(previous, token)] for previous, token in pairwise(ordered)}
    smallest, largest = ordered[0], ordered[-1]
    around = [(largest, END), (0, smallest)]
    return {smallest: [(begin, end) for begin, end in around if begin < end], **owned}


def spread(n: int) -> list[int]:
    """`n` tokens in ascending order from 0, whose distances differ by at most one."""
    if not _is_number(n) or not 0 <= n <= END:
        raise BadInput(f"cannot spread {n!r} tokens over the ring; give a number from 0 to 2**32")
    return [place * END // n for place in range(n)]


def assign(members: Iterable[Member], buckets: int = BUCKETS) -> dict[Member, range]:
    """The run of buckets that each member owns, in the order of the ring.

    The runs are contiguous, cover all buckets, and differ by at most one bucket in size. If there
    are more members than buckets, some own none.
    """
    if not _is_number(buckets) or buckets < 1:
        raise BadInput(f"cannot divide {buckets!r} buckets; give a number from 1 on")
    ordered = _in_order(members)
    count = len(ordered)
    return {
        member: range(place * buckets // count, (place + 1) * buckets // count)
        for place, member in enumerate(ordered)
    }


def tokens_of(members: Iterable[Member]) -> dict[Member, int]:
    """The token of each member, in the order of the ring: the end of its run of buckets.

    The last run ends where the ring begins, at 0.
    """
    ordered = _in_order(members)
    first, *others = spread(len(ordered)) or [0]
    return dict(zip(ordered, [*others, first], strict=False))


def _in_order(members: Iterable[Member]) -> list[Member]:
    distinct = set(members)
    for member in distinct:
        if not _is_number(member) and not isinstance(member, str):
            raise BadInput(f"{member!r} cannot be a member of a ring; give a number or a string")
    return sorted(distinct, key=_place)


def _place(member: int | str) -> tuple[int, bool, int | str]:
    # 7 and "7" have the same hash, and cannot be compared with each other.
    return crc32(str(member).encode(errors="surrogatepass")), isinstance(member, str), member


def _checked_token(token: int) -> int:
    if not _is_number(token) or not 0 <= token < END:
        raise BadInput(f"{token!r} is not a token; give a number from 0 to 2**32 - 1")
    return token


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
