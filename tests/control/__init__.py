"""Named runs."""
