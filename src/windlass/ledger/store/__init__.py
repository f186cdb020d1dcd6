"""The SQL of the ledger."""
