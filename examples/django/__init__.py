"""A Django project: orders, and the tasks that are committed with them."""
