"""A worker, and a team of workers for several shards."""
