"""Crons: one standing row for each."""
