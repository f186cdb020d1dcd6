"""Promises: what kinds must keep, how that stands, and what a change would do to them."""
