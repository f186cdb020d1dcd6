"""The ring as operators see it."""
