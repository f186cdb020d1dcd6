"""Statements about switches, breakers and rates."""
