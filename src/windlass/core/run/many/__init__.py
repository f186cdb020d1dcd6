"""Lists: rows that one call of a handler takes together."""
