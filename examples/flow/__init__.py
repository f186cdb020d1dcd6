"""A nightly graph of tasks, one of which another system executes."""
