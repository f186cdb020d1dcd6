"""Crons: each is one row that is due again at every turn of its schedule."""
