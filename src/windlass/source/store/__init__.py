"""Tables of any supported database as sources."""
