"""Migrations of the tables, run by Alembic."""
