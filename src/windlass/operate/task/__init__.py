"""Tasks: find them, show one, retry and cancel them."""
