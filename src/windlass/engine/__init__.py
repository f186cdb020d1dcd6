"""Claim, run, finish: the one loop, and the life of the worker around it."""
