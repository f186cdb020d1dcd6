"""What a task is: its declaration, enqueueing it, its row."""
