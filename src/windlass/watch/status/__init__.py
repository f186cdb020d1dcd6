"""Status: what runs, what waits and why, and who works."""
