"""Shards as operators see and move them."""
