"""Faces whose workers die."""
