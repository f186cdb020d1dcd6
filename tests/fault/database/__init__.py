"""Databases that go away and come back."""
