"""The SQL of finishing: outcomes, failures, statistics."""
