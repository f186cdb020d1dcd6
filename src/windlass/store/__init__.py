"""What the database holds: all SQL of Windlass, and nothing that runs a handler."""
