"""The ledger: stock that is deducted and given back, each movement exactly once.

Only what was deducted can be given back, in any number of parts and never more than was deducted.
Every call can be repeated with its id.
"""

from typing import TYPE_CHECKING

from windlass.errors import (
    BalanceLimit,
    CacheUnavailable,
    IdConflict,
    InvalidQuantity,
    NotDecided,
    NotHeld,
    OutOfStock,
    OverReturn,
    Refused,
    UnknownDeduction,
    UnknownSku,
)
from windlass.lazy import attributes_of
from windlass.ledger.model.ledger import (
    Confirmation,
    Deduction,
    DeductionLine,
    DeductionStatus,
    Entry,
    Line,
    Movement,
    Receipt,
    Return,
    Stock,
)
from windlass.view.audit import Audit

if TYPE_CHECKING:
    from windlass.ledger.hot import HotLane
    from windlass.ledger.ledger import Ledger

__all__ = [
    "Audit",
    "BalanceLimit",
    "CacheUnavailable",
    "Confirmation",
    "Deduction",
    "DeductionLine",
    "DeductionStatus",
    "Entry",
    "HotLane",
    "IdConflict",
    "InvalidQuantity",
    "Ledger",
    "Line",
    "Movement",
    "NotDecided",
    "NotHeld",
    "OutOfStock",
    "OverReturn",
    "Receipt",
    "Refused",
    "Return",
    "Stock",
    "UnknownDeduction",
    "UnknownSku",
]

__getattr__ = attributes_of(
    __name__, {"windlass.ledger.hot": ("HotLane",), "windlass.ledger.ledger": ("Ledger",)}
)
