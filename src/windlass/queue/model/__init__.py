"""The values and rules of queues; no broker and no database is needed for them."""
