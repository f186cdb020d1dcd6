"""SQL for workers, buckets and the claims that workers hold."""
