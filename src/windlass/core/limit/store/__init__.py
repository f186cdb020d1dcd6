"""The SQL of limits: switches and rates."""
