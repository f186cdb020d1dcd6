"""Migrations of Django's. The tables themselves come from Windlass's own migrations."""
