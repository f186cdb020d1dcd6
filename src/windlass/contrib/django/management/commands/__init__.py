"""`manage.py windlass`."""
