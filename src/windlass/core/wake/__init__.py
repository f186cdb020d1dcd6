"""Waking idle workers: one contract, and one implementation for each way."""
