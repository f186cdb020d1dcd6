"""One database: its URL, its transactions, its tables and its numbers."""
