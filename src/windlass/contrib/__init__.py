"""Windlass in web frameworks: Django, FastAPI and Starlette, Flask."""
