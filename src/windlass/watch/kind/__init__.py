"""Kinds: what is declared, and how it is doing."""
