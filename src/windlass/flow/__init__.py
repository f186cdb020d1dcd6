"""Flows: a graph of tasks, in which a node waits for the nodes before it."""
