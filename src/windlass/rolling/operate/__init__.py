"""FIXME."""
