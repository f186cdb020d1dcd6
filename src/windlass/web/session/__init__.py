"""Sessions: who is logged in to the console."""
