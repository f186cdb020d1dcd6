"""Switches: pause and resume kinds, and set their rate, window and concurrency."""
