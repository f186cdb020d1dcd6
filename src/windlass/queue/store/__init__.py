"""The SQL of queues: messages received, failed, and waiting to be sent."""
