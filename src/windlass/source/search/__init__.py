"""Search servers as sources."""
