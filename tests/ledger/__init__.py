"""The ledger: what it answers, what it keeps, and what it survives."""
