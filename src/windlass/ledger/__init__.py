"""The ledger: stock that is deducted and given back, each movement once and for ever.

Only what was deducted can be given back, in as many parts as one likes, never more than was
deducted, and every call can be repeated under its id.
"""

from windlass.errors import (
    IdConflict,
    InvalidQuantity,
    NotHeld,
    OutOfStock,
    OverReturn,
    Refused,
    UnknownDeduction,
    UnknownSku,
)
from windlass.ledger.ledger import Ledger
from windlass.model.audit import Audit
from windlass.model.ledger import (
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

__all__ = [
    "Audit",
    "Confirmation",
    "Deduction",
    "DeductionLine",
    "DeductionStatus",
    "Entry",
    "IdConflict",
    "InvalidQuantity",
    "Ledger",
    "Line",
    "Movement",
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
