"""What a task is: its declaration, how it is enqueued, and its row."""
