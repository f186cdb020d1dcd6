"""Waking idle workers: one contract, and an implementation for each way to do it."""
