"""SQL for task rows."""
