"""The values and rules of the ledger; no database is needed for them."""
