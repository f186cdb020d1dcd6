"""Rolling kinds: every item is visited at least once every period."""
