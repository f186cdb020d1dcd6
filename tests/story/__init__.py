"""What readers are told: the examples run, and the pages tell the truth."""
