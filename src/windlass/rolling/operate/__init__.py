"""What the handle of a rolling kind and operators can see and do."""
