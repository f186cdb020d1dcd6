"""The hot lane at work: it decides in a cache, records in the book's database, and syncs."""
