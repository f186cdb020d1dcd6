"""A worker, and a team of workers for several shards: the loops of the kernel, wired together."""
