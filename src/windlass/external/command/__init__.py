"""The terminal command for external systems, and the server that it runs."""
