"""Rolling kinds."""
