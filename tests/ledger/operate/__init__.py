"""The ledger as operators see it: commands and the console."""
