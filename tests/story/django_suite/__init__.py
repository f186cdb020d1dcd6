"""Django's own tests of task backends, run with the backend of Windlass."""
