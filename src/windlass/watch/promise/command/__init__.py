"""The terminal commands for promises and plans."""
