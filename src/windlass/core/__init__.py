"""The kernel: one row of work from enqueue to finish. It knows no face by name."""
