"""Migrations: cut, locked, planned and taken back; releases side by side."""
