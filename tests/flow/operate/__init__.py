"""Flows that people draw, change and edit."""
