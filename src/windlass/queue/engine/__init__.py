"""Queues at work: a loop for each consumer, one that sends the outbox, and their transactions."""
