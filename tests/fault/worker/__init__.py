"""Workers that are killed, stopped, paused or blocked."""
