"""The operator's side of the kernel: tasks, switches, the ring, shards."""
