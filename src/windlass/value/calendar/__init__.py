"""Dates and local times: zones, days that are off, and moments that people write."""
