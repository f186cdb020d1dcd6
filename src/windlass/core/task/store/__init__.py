"""Statements about task rows: insert, find and list."""
