"""What a task is: declared, enqueued, and unique by its key."""
