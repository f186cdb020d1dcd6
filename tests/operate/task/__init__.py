"""Tasks that operators look at, retry and cancel."""
