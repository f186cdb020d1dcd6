"""Triggers, and items that are visited together, in each database."""
