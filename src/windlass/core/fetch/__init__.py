"""How a worker gets rows: reads of its own buckets, claims, offers and quarantine."""
