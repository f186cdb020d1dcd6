"""What the user declared: kinds, and the handles that enqueue them. No I/O of its own."""
