"""Sweeps: every row of a large source goes through a handler, range by range and round by round."""
