"""Real worker processes and real servers, killed, stopped and cut off."""
