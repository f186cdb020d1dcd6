"""Which workers are alive, and which of them owns which buckets."""
