"""Alerts: what a person should know."""
