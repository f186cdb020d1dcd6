"""Statements that read, claim, offer and return rows."""
