"""Buckets: the 256 parts that task rows are spread over by hash, and lanes, which share them.

A lane is rows of one kind that run in order, at most `per_lane` of them at once.

A lane has a number: a hash of its kind and its name, whose high bits are its bucket. Rows of a
lane are in the buckets from 256 on, where no plain read or claim looks; the owner of bucket `b`
also owns bucket `256 + b`. The place of a row is twice the number of its lane, plus one if it waits
in the order of due times. It is even if the row holds the lane: it was tried, and will be again.
So an index on the place has the row that holds a lane before all others of that lane.

Two lanes with one number run as one lane: none runs more than it should.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, get_args
from zlib import crc32

from windlass.errors import BadDeclaration, BadInput

BUCKETS = 256
LONGEST_LANE = 255
MOST_PER_LANE = 1_000
# A number has 55 bits; the highest 8 are the bucket.
BITS = 55
OnFailure = Literal["hold", "pass"]
LaneFunction = Callable[..., str | None]


def bucket_of(name: str) -> int:
    """The bucket of a row, from its key, or from its decimal id if it has no key."""
    return crc32(name.encode()) >> 24


def lane_number(kind: str, lane: str) -> int:
    """The number of a lane."""
    digest = blake2b(f"{kind}\0{lane}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> (64 - BITS)


def bucket_of_lane(number: int) -> int:
    """The bucket of the rows of a lane."""
    return BUCKETS + (number >> (BITS - 8))


def is_laned(bucket: int) -> bool:
    """Whether a row in this bucket has a lane."""
    return bucket >= BUCKETS


def owned_with(bucket: int) -> int:
    """The bucket whose owner owns the rows in `bucket`."""
    return bucket % BUCKETS


def place_of(number: int) -> int:
    """The place of a row that waits in the order of its lane."""
    return 2 * number + 1


def lane_at(place: int) -> int:
    """The number of the lane that a place belongs to."""
    return place >> 1


def is_holding(place: int) -> bool:
    """Whether the row at a place has its lane although it waits."""
    return place % 2 == 0


def numbers_in(buckets: range) -> range:
    """The numbers of all lanes whose owner has these buckets."""
    return range(buckets.start << (BITS - 8), buckets.stop << (BITS - 8))


def home_name(lane: str) -> str:
    """The key by which a lane finds its shard; no task can have it."""
    return f"windlass:lane:{lane}"


@dataclass(frozen=True)
class LaneTerms:
    """What the declaration of a kind says about its lanes."""

    # Gives the lane of a call, from those of the handler's arguments that it names.
    of: LaneFunction | None = None
    names: frozenset[str] | None = None
    per_lane: int = 1
    on_failure: OnFailure = "hold"
    fair: bool = False

    @property
    def holds(self) -> bool:
        """Whether a row that waits for its retry keeps the rows behind it waiting."""
        return self.on_failure == "hold"

    def lane_of(
        self,
        kind: str,
        signature: inspect.Signature,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> str | None:
        """The lane of a call; None if it has none."""
        if self.of is None:
            return None
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            # Arguments that do not fit are refused with a better error.
            return None
        bound.apply_defaults()
        given: dict[str, Any] = bound.arguments
        if self.names is not None:
            given = {name: value for name, value in given.items() if name in self.names}
        try:
            lane = self.of(**given)
        except Exception as problem:
            raise BadInput(
                f"kind {kind!r}: its lane function raised {type(problem).__name__}: {problem}"
            ) from problem
        return None if lane is None else check_lane(kind, lane)


NO_LANE_TERMS = LaneTerms()


def check_lane(kind: str, lane: object) -> str:
    """`lane`, if it can be the name of a lane."""
    if not isinstance(lane, str):
        raise BadInput(
            f"kind {kind!r}: lane {lane!r} is not text; write it as a string, for example "
            "str(tenant)"
        )
    if not lane:
        raise BadInput(f"kind {kind!r}: the lane is empty; give a name, or None for no lane")
    if len(lane) > LONGEST_LANE:
        raise BadInput(
            f"kind {kind!r}: the lane {lane[:40]!r}... has {len(lane)} characters; "
            f"at most {LONGEST_LANE} fit"
        )
    try:
        lane.encode()
        is_storable = "\x00" not in lane
    except UnicodeEncodeError:
        is_storable = False
    if not is_storable:
        raise BadInput(f"kind {kind!r}: lane {lane!r} has characters that databases cannot store")
    return lane


def lane_terms(
    kind: str,
    signature: inspect.Signature,
    *,
    of: LaneFunction | None,
    per_lane: int,
    on_failure: OnFailure,
    fair: bool,
) -> LaneTerms | None:
    """The terms of a declaration; None if it says nothing about lanes."""
    what = f"kind {kind!r}"
    if isinstance(per_lane, bool) or not isinstance(per_lane, int) or per_lane < 1:
        raise BadDeclaration(f"{what}: per_lane={per_lane!r} is not a number from 1 on")
    if per_lane > MOST_PER_LANE:
        raise BadDeclaration(f"{what}: per_lane={per_lane} is above {MOST_PER_LANE:,}")
    if on_failure not in get_args(OnFailure):
        raise BadDeclaration(f'{what}: on_failure={on_failure!r} is not one of "hold", "pass"')
    if not isinstance(fair, bool):
        raise BadDeclaration(f"{what}: fair={fair!r} is not True or False")
    if of is not None:
        return LaneTerms(of, _names(what, of, signature), per_lane, on_failure, fair)
    for option, value, default in (
        ("per_lane", per_lane, 1),
        ("on_failure", on_failure, "hold"),
        ("fair", fair, False),
    ):
        if value != default:
            raise BadDeclaration(
                f"{what}: {option}={value!r} needs lane=; give a function of the arguments that "
                "returns the name of the lane, or None for tasks without one"
            )
    return None


def _names(what: str, of: object, signature: inspect.Signature) -> frozenset[str] | None:
    """The parameters of a lane function; None if it takes all of the handler's."""
    if not callable(of):
        raise BadDeclaration(
            f"{what}: lane={of!r} is not a function; give a function of the arguments, or name the "
            'lane of each task: using(lane="...")'
        )
    if inspect.iscoroutinefunction(of):
        raise BadDeclaration(f"{what}: its lane function is async; give a plain function")
    known = {
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    }
    names: set[str] = set()
    for name, parameter in inspect.signature(of).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            return None
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise BadDeclaration(
                f"{what}: its lane function gets arguments by name, and cannot take {name!r} so"
            )
        if name in known:
            names.add(name)
        elif parameter.default is parameter.empty:
            listed = ", ".join(sorted(known)) or "none"
            raise BadDeclaration(
                f"{what}: its lane function takes {name!r}, which is not a parameter of the "
                f"handler; those are: {listed}"
            )
    return frozenset(names)
