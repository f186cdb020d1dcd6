"""Statements about workers, their buckets and the rows that they hold."""
