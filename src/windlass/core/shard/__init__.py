"""Several databases as one: the roster, routing, and moving rows."""
