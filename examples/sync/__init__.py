"""Sales are written into any of several cheap databases, and brought into the book in lists."""
