"""Crons: when they run, how the last turns went, and changing that."""
