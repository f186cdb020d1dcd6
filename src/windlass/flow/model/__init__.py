"""The pure rules of flows: graphs, slots, conditions, payloads, templates and views."""
