"""Flows at work: starting them, what ended nodes bring about, and nodes that are added."""
