"""Promises as values: the speed of a kind, its promise, and the effect of a change."""
