"""The rules of control runs, without a database."""
