"""A shop in Flask: orders and their tasks are committed together."""
