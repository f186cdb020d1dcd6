"""What apps and operators do with queues."""
