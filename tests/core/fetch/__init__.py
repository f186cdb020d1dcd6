"""How a worker gets rows: reads, claims, rescues."""
