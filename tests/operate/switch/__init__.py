"""Switches as operators turn them."""
