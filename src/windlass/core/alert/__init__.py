"""Alerts: events that a person should know about."""
