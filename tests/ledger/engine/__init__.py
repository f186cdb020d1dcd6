"""Movements that share a transaction, wait for a row, or join the transaction of their caller."""
