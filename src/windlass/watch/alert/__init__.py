"""Alerts: list them, and acknowledge them."""
