"""Web frameworks: what helps in Django, FastAPI, Starlette and Flask."""
