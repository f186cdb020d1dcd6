"""Checks of an app and of its databases."""
