"""Cancelling an order: whatever it has set in motion is undone, and each step is done once."""
