"""Statements about the roster of shards and about rows that move."""
