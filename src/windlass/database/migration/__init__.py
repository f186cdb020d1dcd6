"""Migrations of the tables: their files, their steps, how they run, and what they will lock."""
