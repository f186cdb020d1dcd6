"""Metrics: one table of all of them, where their values come from, and how they are exposed."""
