"""The bodies that the ledger's HTTP API takes, by itself and in the console."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictInt

from windlass.ledger.model.ledger import LONGEST_REASON, MOST_BYTES, MOST_LINES, MOST_OF_A_SKU
from windlass.value.task import LONGEST_KEY, RESERVED
from windlass.web.view import RequestBody

ANY_TEXT = (
    f"Any text of at most {LONGEST_KEY} characters and {MOST_BYTES} bytes in UTF-8 "
    f"that does not begin with `{RESERVED}`."
)
Id = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_KEY, pattern=r"^[^\x00]+$", description=ANY_TEXT),
]


class LineBody(RequestBody):
    """One SKU and how many of it."""

    sku: Id
    quantity: Annotated[StrictInt, Field(ge=1, le=MOST_OF_A_SKU)]


class AdjustLineBody(RequestBody):
    """One SKU and how many more, or less, there are of it."""

    sku: Id
    quantity: Annotated[StrictInt, Field(ge=-MOST_OF_A_SKU, le=MOST_OF_A_SKU)]


class MovementBody(RequestBody):
    """Lines under an id that the caller chooses."""

    id: Id
    lines: Annotated[list[LineBody], Field(min_length=1, max_length=MOST_LINES)]


class DeductionBody(MovementBody):
    """A deduction; with a hold, such as "15m", it comes back unless it is confirmed."""

    hold: Annotated[str, Field(examples=["15m"])] | None = None


class AdjustmentBody(RequestBody):
    """What a count found."""

    id: Id
    lines: Annotated[list[AdjustLineBody], Field(min_length=1, max_length=MOST_LINES)]
    reason: Annotated[str, Field(max_length=LONGEST_REASON)] = ""


def pairs(body: MovementBody | AdjustmentBody) -> list[tuple[str, int]]:
    """The lines of a body, as the ledger takes them."""
    return [(line.sku, line.quantity) for line in body.lines]
