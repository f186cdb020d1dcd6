"""The terminal commands for flows."""
