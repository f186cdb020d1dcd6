"""The migrations of orders."""
