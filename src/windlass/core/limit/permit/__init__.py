"""Permits: limits of runs at once that hold for the whole fleet."""
