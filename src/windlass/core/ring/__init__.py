"""Who is alive and who owns which buckets."""
