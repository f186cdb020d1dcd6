"""How a worker runs sweeps: rounds, ranges, reading, retries."""
