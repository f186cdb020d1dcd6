"""Shards: show them, drain one, move rows to where they belong."""
