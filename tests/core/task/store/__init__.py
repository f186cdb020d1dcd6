"""Task rows in each database."""
