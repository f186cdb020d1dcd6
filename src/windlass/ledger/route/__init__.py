"""The ledger in the console's API."""
