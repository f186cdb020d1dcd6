"""Shards whose servers or movers die."""
