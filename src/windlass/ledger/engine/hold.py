"""The tasks that end holds: each is due when its hold ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from windlass.value.bucket import bucket_of
from windlass.value.task import RESERVED, NewTask

LAPSE = f"{RESERVED}lapse"


def tasks(held: Mapping[str, int], numbers: Sequence[int], *, now: int) -> list[NewTask]:
    """A task for each hold, due at its end."""
    return [
        NewTask(
            id=number,
            kind=LAPSE,
            task_key=None,
            bucket=bucket_of(str(number)),
            priority=0,
            due_at=until,
            payload=msgspec.json.encode({"deduction": deduction}).decode(),
            created_at=now,
        )
        for number, (deduction, until) in zip(numbers, held.items(), strict=True)
    ]
