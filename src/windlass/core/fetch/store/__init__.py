"""The SQL of fetching: written claims and offers."""
