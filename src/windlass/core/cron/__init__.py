"""Crons: each has one standing row."""
