"""How outcomes are written: group commits, failures, statistics."""
