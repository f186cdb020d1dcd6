"""Several databases as one: the roster, routing, moving rows."""
