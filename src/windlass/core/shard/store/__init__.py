"""SQL for the shard row, and for rows that move."""
