"""Statements that write outcomes, statistics and failures."""
