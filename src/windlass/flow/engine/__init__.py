"""Flows at work: starting them, filling slots when nodes end, and adding nodes."""
