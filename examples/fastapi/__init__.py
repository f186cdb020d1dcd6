"""A shop in FastAPI: orders and their tasks are committed together."""
